// Times the kernel with other values of its parameters: sliders, and the timeline of the chosen values.

import { button, choice, fill, make, notice } from "../../widgets/static/elements.js";
import { within } from "../../widgets/static/parts.js";
import { mount as mountTimeline } from "../timeline/view.js";
import { VariantList } from "./list.js";
import { number, time } from "../../widgets/static/words.js";

const PATIENCE_MS = 60000; // a large program is compiled meanwhile
const KINDS = { argument: "", global: "global", dtype: "of arrays", target: "chip", cores: "cores" };

class Vary {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, context, meta, start: meta.parameters.map((p) => p.start), beside: false, timeline: null });
    this.numbers = [...this.start];
    this.variants = new Map(meta.visited.map((variant) => [keyOf(variant.numbers), variant]));
    this.build();
    this.go(this.numbers);
  }

  build() {
    const { meta } = this;
    this.controls = meta.parameters.map((parameter, k) => this.control(parameter, k));
    this.figures = make("div", { class: "nki-figures", "aria-live": "polite" });
    this.problem = make("div", { class: "nki-problem" });
    this.holder = make("div", { class: "nki-holder" });
    this.status = make("span", { class: "nki-faint", role: "status" });
    this.sweepButton = button(`Try ${number(meta.sweep.length)} combinations`, "Time them one after the other; press again to stop", () => this.sweep());
    this.list = new VariantList(this, (numbers) => this.choose(numbers));
    fill(this.panel,
      make("div", { class: "nki-vary" },
        make("div", { class: "nki-sliders", role: "group", "aria-label": `Parameters of ${meta.name}` }, this.controls.map((c) => c.element)),
        this.list.bars),
      make("div", { class: "nki-bar" },
        button("Back to the start", "Choose the values the kernel was run with", () => this.choose(this.start)), this.sweepButton,
        choice("timeline", [["", "alone"], ["both", "beside the start"]], "", (value) => { this.beside = Boolean(value); this.redraw(true); }),
        this.status),
      this.figures, this.problem, this.holder, this.list.element,
      meta.fixed.length ? make("p", { class: "nki-faint" },
        `Left as they are: ${meta.fixed.map(([name, value]) => `${name} = ${value}`).join(", ")}. Name values to change one: vary(${meta.fixed[0][0]}=[…]).`) : null,
      make("p", { class: "nki-faint" }, `Times are ${meta.badge}. A variant is compiled and timed; no value is computed.`));
  }

  /** Return a slider for numbers, a choice for everything else: {element, show(number)}. */
  control({ name, kind, values, ordered }, k) {
    const label = make("span", { class: "nki-parameter" }, make("code", {}, name), KINDS[kind] ? make("span", { class: "nki-faint" }, ` ${KINDS[kind]}`) : null);
    const moved = (n) => this.choose(this.numbers.map((old, at) => (at === k ? n : old)));
    if (ordered && values.length > 1) {
      const value = make("output", { class: "nki-chosen-value" });
      const slider = make("input", {
        type: "range", min: 0, max: values.length - 1, step: 1, class: "nki-slider", "aria-label": name, "data-name": name,
        oninput: () => moved(Number(slider.value)), onkeydown: keepKeys,
      });
      return {
        element: make("label", { class: "nki-control" }, label, slider, value),
        show: (n) => { slider.value = n; slider.setAttribute("aria-valuetext", values[n]); value.textContent = values[n]; },
      };
    }
    const select = make("select", { "aria-label": name, "data-name": name, onchange: () => moved(Number(select.value)), onkeydown: keepKeys },
      values.map((text, n) => make("option", { value: n }, text)));
    return { element: make("label", { class: "nki-control" }, label, select), show: (n) => { select.value = n; } };
  }

  choose(numbers) {
    this.go(numbers);
  }

  /** Show a combination; while the kernel is busy with one, only the last one asked for waits. */
  go(numbers) {
    this.numbers = [...numbers];
    this.controls.forEach((control, k) => control.show(this.numbers[k]));
    this.asked = performance.now();
    if (!this.running) this.running = this.follow().finally(() => { this.running = null; });
  }

  async follow() {
    let shown = null;
    while (shown !== keyOf(this.numbers) && !this.closed) {
      shown = keyOf(this.numbers);
      const slow = setTimeout(() => this.tell("compiling and timing …"), 150);
      try {
        await this.show(await this.variant(this.numbers));
        this.tell("");
      } catch (problem) {
        this.tell("");
        fill(this.problem, notice(problem.message, "error"));
      }
      clearTimeout(slow);
    }
  }

  tell(text) {
    this.status.textContent = text;
  }

  async variant(numbers) {
    const key = keyOf(numbers);
    if (!this.variants.has(key)) {
      const { meta } = await this.context.source.get(`vary/at/${key}`, PATIENCE_MS);
      this.variants.set(key, meta);
    }
    return this.variants.get(key);
  }

  async show(variant) {
    this.shown = variant;
    this.list.show(this.variants, keyOf(variant.numbers));
    if (variant.problem) {
      fill(this.figures);
      fill(this.problem, notice(`${this.words(variant)} does not compile:`, "error"), make("pre", { class: "nki-error-text" }, variant.problem),
        this.timeline ? make("p", { class: "nki-faint" }, "The timeline below is still that of the combination before.") : null);
      this.holder.classList.add("nki-pale");
      return;
    }
    fill(this.problem, variant.doubt ? notice(`It may not compute what it does at the start. ${variant.doubt}`, "error") : null);
    fill(this.figures, this.figuresOf(variant));
    await this.redraw();
  }

  figuresOf(variant) {
    const figure = (label, value, note = "") => make("div", { class: "nki-figure" },
      make("div", { class: "nki-faint" }, label), make("div", { class: "nki-value" }, value), make("div", { class: "nki-faint" }, note));
    // A modelled run knows every tile: a memory of which nothing is said holds none.
    const used = (value, write) => (value === null ? "not used" : write(value));
    return [
      figure("total time", time(variant.total), variant.change === "start" ? "the start" : `${variant.change} compared with the start`),
      figure("bound by", variant.bound), figure("SBUF peak in time", used(variant.sbuf, (n) => `${number(n)} bytes`), "per partition"),
      figure("PSUM peak", used(variant.psum, number), "banks"), figure("instructions", number(variant.instructions)),
    ];
  }

  /** Put the timeline of what is shown in place of the one before. */
  async redraw(anew = false) {
    const variant = this.shown;
    if (!variant || variant.problem) return;
    const key = keyOf(variant.numbers);
    const isStart = key === keyOf(this.start);
    const prefix = isStart ? "" : `vary/${this.beside ? "both" : "run"}/${key}/`;
    if (prefix === this.prefix && !anew) {
      this.holder.classList.remove("nki-pale");
      return;
    }
    const { open, source, theme } = this.context;
    const panel = make("div");
    const timeline = await mountTimeline(panel, { source: within(source, prefix), theme, open: open.source ? { source: open.source } : {} });
    if (this.closed || variant !== this.shown) {
      timeline.close();
      return;
    }
    const before = this.timeline;
    if (before) timeline.colours.keep(before.colours.by);
    Object.assign(this, { timeline, prefix });
    fill(this.holder, panel);
    this.holder.classList.remove("nki-pale");
    before?.close();
    timeline.refresh();
    this.panel.dataset.variant = key;
    this.panel.dataset.redrawMs = (performance.now() - this.asked).toFixed(0);
  }

  words(variant) {
    return this.meta.parameters.map((p, k) => `${p.name} = ${p.values[variant.numbers[k]]}`).join(", ");
  }

  /** Time every combination of the sweep, or stop doing so. */
  async sweep() {
    if (this.sweeping) {
      this.sweeping = false;
      return;
    }
    this.sweeping = true;
    const text = this.sweepButton.textContent;
    let done = 0;
    for (const numbers of this.meta.sweep) {
      if (!this.sweeping || this.closed) break;
      this.sweepButton.textContent = `Stop (${number(done)} of ${number(this.meta.sweep.length)})`;
      try {
        await this.variant(numbers);
      } catch (problem) {
        this.tell(problem.message);
        break;
      }
      done += 1;
      this.list.show(this.variants, this.shown ? keyOf(this.shown.numbers) : "");
    }
    this.sweeping = false;
    this.sweepButton.textContent = text;
  }

  refresh() {
    this.timeline?.refresh();
  }

  close() {
    this.closed = true;
    this.timeline?.close();
  }
}

/** Leave keys to a slider: JupyterLab, where they arrive next, would not let the slider have them. */
function keepKeys(event) {
  if (!event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Tab") event.stopPropagation();
}

/** Return the numbers of a combination as names of parts have them. */
export function keyOf(numbers) {
  return numbers.join("-");
}

/** Show the sliders in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("vary", PATIENCE_MS);
  if (meta.problem) {
    fill(panel, notice(meta.problem));
    return { refresh() {}, close() {} };
  }
  return new Vary(panel, context, meta);
}
