// Shows the values of every operand before and after each executed instruction; goes forward, back, and to events.

import { button, choice, fill, make, notice, sourceLine } from "../../widgets/static/elements.js";
import { Grid, factsOf } from "./grid.js";
import { Moment } from "../memory/moment.js";
import { atLine, findStep, linesRun, touches } from "./search.js";
import { RERUN, RERUN_MS } from "../../widgets/static/values.js";
import { number } from "../../widgets/static/words.js";

const KEPT = 40; // steps whose values stay in the browser
const SPACES = { shared_hbm: "HBM", private_hbm: "HBM (private)", sbuf: "SBUF", psum: "PSUM" };

class Stepper {
  constructor(panel, context, { meta, arrays }) {
    Object.assign(this, { panel, context, theme: context.theme, meta, arrays, at: -1, line: 0, watched: -1, known: new Map() });
    if (!meta.count) {
      fill(panel, notice(meta.problem || "No instruction ran."));
      return;
    }
    this.said = make("span", { class: "nki-status", role: "status", "aria-live": "polite" });
    this.slider = make("input", { type: "range", min: 0, max: meta.count - 1, value: 0, class: "nki-slider",
      "aria-label": "executed instruction", oninput: () => this.show(Number(this.slider.value)) });
    this.field = make("input", { type: "number", min: 0, max: meta.count - 1, "aria-label": "number of the executed instruction",
      onchange: () => this.show(Number(this.field.value)), onkeydown: (event) => { if (event.key === "Enter") this.show(Number(this.field.value)); } });
    this.around = make("div", { class: "nki-list nki-code nki-steps", role: "listbox", tabindex: "0", "aria-label": "Executed instructions around this one" });
    this.detail = make("div", {});
    this.memory = make("div", {});
    this.news = make("span", { class: "nki-faint", role: "status" });
    fill(panel,
      make("div", { class: "nki-bar" },
        button("|◀", "First instruction (Home)", () => this.show(0)), button("◀ Back", "One instruction back (← or p)", () => this.show(this.at - 1)),
        button("Forward ▶", "One instruction forward (→ or n)", () => this.show(this.at + 1)), button("▶|", "Last instruction (End)", () => this.show(meta.count - 1)),
        make("label", { class: "nki-choice" }, "step", this.field, `of ${number(meta.count)}`), this.slider),
      this.jumps(), make("div", { class: "nki-bar" }, this.said, this.news), this.around, this.detail, this.memory,
      make("p", { class: "nki-help" }, `Keys: → and ← (n and p) one instruction, Home and End, Shift+N to the next NaN or Inf, l and Shift+L on and back to the chosen line, [ and ] to the watched tile's writes, t and Shift+T to the pass after and before of a loop. ${meta.note}`));
    this.keys = (event) => this.key(event);
    panel.addEventListener("keydown", this.keys);
  }

  /** Return the row of what one can run to. */
  jumps() {
    const { meta, arrays } = this;
    const row = [button("Next NaN/Inf", "Run to the next instruction that writes a NaN or an infinity (Shift+N)", () => this.toNotFinite())];
    if (meta.searchable) {
      const lines = linesRun(arrays.order, arrays.line, meta.places.length);
      this.line = lines.length ? lines[0][0] : 0;
      const named = lines.map(([code, count]) => [code, `${meta.places[code - 1][0]}: ${meta.places[code - 1][1].trim()}  (${number(count)})`]);
      const tensors = meta.tensors.map((t, k) => [k, `${t.name}  ${t.kind}  ${SPACES[t.memory]}`]);
      row.push(
        make("span", { class: "nki-fields" }, choice("line", named, this.line, (value) => { this.line = Number(value); }),
          button("To line", "Run to the next instruction of the line (l)", () => this.toLine(1))),
        make("span", { class: "nki-fields" }, choice("watch", [[-1, "no tile"], ...tensors], -1, (value) => this.watch(Number(value))),
          button("◀ write", "Back to the write before ([)", () => this.toWrite(-1)), button("write ▶", "On to the next write (])", () => this.toWrite(1))));
    }
    return make("div", { class: "nki-bar" }, row);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
    const acts = {
      ArrowRight: () => this.show(this.at + 1), ArrowLeft: () => this.show(this.at - 1), n: () => this.show(this.at + 1), p: () => this.show(this.at - 1),
      ArrowDown: () => this.show(this.at + 1), ArrowUp: () => this.show(this.at - 1),
      Home: () => this.show(0), End: () => this.show(this.meta.count - 1), N: () => this.toNotFinite(), l: () => this.toLine(1), L: () => this.toLine(-1),
      Escape: () => { this.search = null; this.news.textContent = ""; }, "[": () => this.toWrite(-1), "]": () => this.toWrite(1), t: () => this.toPass(1), T: () => this.toPass(-1),
    };
    const act = acts[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab's own shortcuts act as well
  }

  /** Return a promise of a step; the latest ones stay, so that going back and forth asks for nothing. */
  step(n) {
    const found = this.known.get(n) || this.context.source.once(`stepper/at/${n}`);
    this.known.delete(n);
    this.known.set(n, found);
    found.catch(() => this.known.delete(n));
    for (const old of this.known.keys()) {
      if (this.known.size <= KEPT) break;
      this.known.delete(old);
    }
    return found;
  }

  async show(n) {
    if (!Number.isFinite(n)) return;
    const at = Math.min(this.meta.count - 1, Math.max(0, Math.round(n)));
    this.field.value = this.slider.value = at;
    this.news.textContent = "";
    this.search = null;
    if (at === this.at && this.shown?.meta.number === at) return; // else what is looked at would be made anew
    this.at = at;
    const late = setTimeout(() => { if (this.at === at) this.news.textContent = "computing…"; }, 300);
    try {
      const step = await this.step(at);
      if (this.at === at) this.tell(step);
    } catch (problem) {
      if (this.at === at) fill(this.detail, notice(problem.message, "error"));
    } finally {
      clearTimeout(late);
      if (this.at === at && this.news.textContent === "computing…") this.news.textContent = "";
    }
  }

  tell({ meta, arrays }) {
    this.shown = { meta, arrays };
    const passes = meta.passes.map((p) => `pass ${number(p.number + 1)} of ${number(p.total)}`).join(", ");
    this.said.textContent = `Step ${number(meta.number)}: ${meta.name} on ${this.theme.engineLabel(meta.engine)}${passes ? `, ${passes}` : ""}`;
    fill(this.around, ...meta.around.map((i) => this.row(i)));
    fill(this.detail, this.instruction(meta), meta.error ? notice(meta.error, "error") : null,
      make("div", { class: "nki-operands" }, meta.operands.map((operand, k) => this.operand(operand, k, meta, arrays))),
      meta.printed ? make("details", { open: true }, make("summary", {}, "It prints"), make("pre", {}, meta.printed)) : null);
    this.moment?.show(meta.position, meta.operands);
  }

  row(i) {
    const chosen = i.number === this.at;
    const row = make("div", { class: "nki-step-row", role: "option", "aria-selected": String(chosen), title: i.place ? `${i.place}: ${i.source.trim()}` : null,
      onclick: () => this.show(i.number), style: { borderLeftColor: this.theme.engine(i.engine) } },
    make("span", { class: "nki-line-number" }, `${number(i.number).padStart(7)} ${chosen ? "▶" : " "}`), i.text);
    return row;
  }

  instruction(meta) {
    const loops = meta.passes.map((p) => make("div", {},
      `pass ${number(p.number + 1)} of ${number(p.total)}`, p.value === null ? ` while ${p.register}` : `, ${p.register} = ${number(p.value)}`, " of ", sourceLine(p.place, p.source)));
    const held = Object.entries(meta.registers).map(([name, value]) => `${name} = ${number(value)}`);
    const set = Object.entries(meta.set).map(([name, value]) => `${name} = ${number(value)}`);
    const open = this.context.open;
    return make("div", { class: "nki-detail" },
      make("div", { class: "nki-use" },
        make("span", { class: "nki-engine" }, make("span", { class: "nki-chip", style: { background: this.theme.engine(meta.engine) } }), this.theme.engineLabel(meta.engine)),
        make("code", {}, meta.text),
        open.ir && button("Show in IR", "Show the instruction in the program's text", () => open.ir({ position: meta.position })),
        open.memory && button("Show in Memory", "Show this moment in the memory view", () => open.memory({ position: meta.position }))),
      sourceLine(meta.place, meta.source), loops,
      held.length ? make("div", { class: "nki-faint" }, `registers before: ${held.join(", ")}`) : null,
      set.length ? make("div", {}, `sets ${set.join(", ")}`) : null);
  }

  operand(operand, k, meta, arrays) {
    const moments = operand.way === "reads" ? [["values", operand.before, "before"]] : [["before", operand.before, "before"], ["after", operand.after, "after"]];
    const changed = operand.changed === null ? "" : `, ${number(operand.changed)} of ${number(operand.shape.reduce((a, b) => a * b, 1))} elements changed`;
    const watch = this.meta.searchable && button("Watch", "Watch this tensor: [ and ] go to its writes", () => this.watch(operand.tensor, true));
    return make("section", { class: "nki-operand-values" },
      make("h4", {}, `${operand.name} `, make("span", { class: "nki-faint" }, `${operand.way} `), make("code", {}, operand.text),
        make("span", { class: "nki-faint" }, ` ${operand.shape.join(" x ")} ${operand.dtype} in ${SPACES[operand.memory]}${changed} `), watch),
      operand.skipped ? make("div", { class: "nki-faint" }, `${number(operand.skipped)} rows are skipped: their index is out of range`) : null,
      make("div", { class: "nki-moments" }, moments.map(([title, values, when]) => this.values(operand, k, meta, arrays, title, values, when))));
  }

  values(operand, k, meta, arrays, title, values, when) {
    if (!values) {
      const why = when === "before" ? "nothing had written it yet" : "the instruction did not end";
      return make("div", { class: "nki-moment" }, make("div", { class: "nki-faint" }, `${title}: ${why}`));
    }
    const [range, bad] = factsOf(values);
    const grid = new Grid(values, arrays, this.theme, `${operand.name} ${title}`,
      (row, column) => this.context.source.once(`stepper/window/${meta.number}/${k}/${when}/${row}/${column}`));
    return make("div", { class: "nki-moment" },
      make("div", {}, make("strong", {}, title), ` ${range}, `, make("span", { class: values.nan || values.infinite ? "nki-bad" : "nki-faint" }, bad)), grid.element);
  }

  async toNotFinite() {
    const from = this.at;
    this.news.textContent = "looking for a NaN or Inf…";
    try {
      // The first search from the beginning looks at the first instruction as well.
      const start = Math.min(this.meta.count, this.searched || from ? from + 1 : 0);
      this.searched = true;
      const search = this.search = {};
      for (let looked = start; ;) {
        const { meta } = await this.context.source.once(`stepper/not_finite/${looked}`);
        if (this.search !== search) return; // somebody has gone elsewhere
        if (meta.number !== null) return await this.show(meta.number);
        looked = meta.looked;
        if (looked >= meta.count) break;
        this.news.textContent = `looked at ${number(looked)} of ${number(meta.count)} (Escape stops)…`;
      }
      this.news.textContent = `no instruction from step ${number(start)} on writes a NaN or an infinity`;
    } catch (problem) {
      this.news.textContent = problem.message;
    }
  }

  find(fits, by, what) {
    if (!this.meta.searchable || !fits) return;
    const n = findStep(this.arrays.order, fits, this.at, by);
    if (n < 0) this.news.textContent = `${by > 0 ? "no later" : "no earlier"} ${what}`;
    else this.show(n);
  }

  toLine(by) {
    this.find(this.line ? atLine(this.arrays.line, this.line) : null, by, "instruction of that line");
  }

  toWrite(by) {
    if (this.watched < 0) {
      this.news.textContent = "choose a tile to watch first";
      return;
    }
    this.find(touches(this.arrays, this.watched, true), by, `write of ${this.meta.tensors[this.watched].name}`);
  }

  toPass(by) {
    const position = this.shown?.meta.position;
    this.find((other) => other === position, by, "pass with this instruction");
  }

  watch(tensor, choose = false) {
    this.watched = tensor;
    if (choose) {
      const select = this.panel.querySelectorAll("select")[1];
      if (select) select.value = String(tensor);
    }
    this.news.textContent = tensor < 0 ? "" : `watching ${this.meta.tensors[tensor].name}`;
    this.moment?.mark(tensor);
  }

  /** Go to the first step of an instruction of the program, or of a line; a tensor is watched from then on. */
  reveal({ position, place, tensor }) {
    if (!this.meta.searchable) return;
    if (tensor !== undefined) this.watch(tensor, true);
    const code = place === undefined ? 0 : this.meta.places.findIndex(([heading]) => heading === place) + 1;
    const fits = code ? atLine(this.arrays.line, code) : (other) => other === position;
    const n = findStep(this.arrays.order, fits, -1);
    if (n >= 0) this.show(n);
    else this.news.textContent = "this did not run";
  }

  async start() {
    if (!this.meta.count) return;
    await this.show(0);
    try {
      this.moment = await Moment.of(this.context);
    } catch (problem) {
      fill(this.memory, notice(problem.message));
      return;
    }
    fill(this.memory, this.moment.element);
    if (this.shown) this.moment.show(this.shown.meta.position, this.shown.meta.operands);
  }

  refresh() {
    if (this.shown) this.tell(this.shown);
    this.moment?.refresh();
  }

  close() {
    this.panel.removeEventListener("keydown", this.keys);
    this.moment?.close();
  }
}

/** Show the executed instructions in `panel`; returns the view. */
export async function mount(panel, context) {
  fill(panel, notice(RERUN));
  const view = new Stepper(panel, context, await context.source.get("stepper", RERUN_MS));
  await view.start();
  return view;
}
