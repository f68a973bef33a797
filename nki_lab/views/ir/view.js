// Shows the program after each pass, and what the pass changed.

import { button, choice, copyText, fill, make, notice, sourceLine } from "../../widgets/static/elements.js";
import { declarations, GAP, partsOf, rewritten, rowsOf } from "./rows.js";
import { LongList } from "../../widgets/static/list.js";
import { number } from "../../widgets/static/words.js";

class Passes {
  constructor(panel, context, stages) {
    Object.assign(this, {
      panel, context, theme: context.theme, stages, showAll: false, shown: -1, rows: [],
      filters: { removed: true, changes: false, wanted: 0 }, lit: null,
    });
    this.names = make("div", { class: "nki-passes", role: "group", "aria-label": "Passes of the compiler" });
    this.list = new LongList({
      row: (k) => this.row(k), label: "Program text", onChoose: (k) => this.tell(this.rows[k]),
      facts: { class: "nki-list nki-code nki-lines", "aria-multiselectable": "true" },
    });
    this.below = make("div", { class: "nki-detail nki-stay", "aria-live": "polite" });
    this.idle = make("span", {});
    this.search = make("input", { type: "search", placeholder: "find in the text", "aria-label": "Find in the text",
      onkeydown: (event) => this.find(event) });
    this.engineChoice = make("span", {});
    this.news = make("span", { class: "nki-faint" });
    fill(panel,
      make("div", { class: "nki-bar" }, this.search, this.engineChoice,
        this.box("only differences", "changes"), this.box("what was taken away", "removed"),
        button("Copy", "Copy the lines that are listed as text", () => this.copy()),
        this.idle, this.news),
      this.names, this.list.element, this.below);
    this.listPasses();
  }

  box(label, name) {
    const own = name === "showAll";
    const box = make("input", { type: "checkbox", onchange: () => {
      if (own) {
        this.showAll = box.checked;
        this.listPasses();
      } else {
        this.filters[name] = box.checked;
        this.arrange();
      }
    } });
    box.checked = own ? this.showAll : this.filters[name];
    return make("label", { class: "nki-choice" }, box, label);
  }

  /** Take how many lines each pass wrote; one that only rebuilt what reads alike has changed nothing. */
  count(stages) {
    this.stages = stages;
    this.listPasses();
  }

  listPasses() {
    const unchanged = this.stages.filter((stage) => !stage.changed).length;
    fill(this.idle, unchanged ? this.box(`${unchanged} passes that changed nothing`, "showAll") : null);
    fill(this.names, ...this.stages.flatMap((stage, k) => {
      if (!stage.changed && !this.showAll && k !== this.shown) return [];
      const counts = stage.written === undefined ? "" : [["±", stage.rewritten], ["+", stage.written], ["−", stage.taken]]
        .filter(([, count]) => count).map(([sign, count]) => sign + number(count)).join(" ");
      const what = k === 0 ? (stage.name === "loaded" ? "all that the file has" : "as traced") : stage.changed ? counts : "unchanged";
      return [make("button", {
        type: "button", class: stage.changed ? null : "nki-unchanged", "aria-pressed": String(k === this.shown),
        onclick: () => this.show(k),
      }, make("span", {}, stage.name), make("span", { class: "nki-faint" }, what))];
    }));
  }

  /** Show the program after pass `k`; `at` finds lines to point at: (k of a line) => true. */
  async show(k, at = null) {
    this.shown = k;
    this.listPasses();
    fill(this.below, notice("…"));
    try {
      const { meta, arrays } = await this.context.source.get(`ir/${k}`);
      if (this.shown !== k) return;
      this.text = meta.text.split("\n");
      Object.assign(this, { meta, places: meta.places, arrays, digits: String(this.text.length).length, lit: null });
      this.declared = declarations(this.text);
      const wanted = meta.engines.indexOf(this.engine || "");
      this.filters.wanted = Math.max(0, wanted);
      fill(this.engineChoice, choice("engine", meta.engines.map((name, n) => [n, n ? this.theme.engineLabel(name) : "all"]),
        this.filters.wanted, (value) => { this.filters.wanted = Number(value); this.engine = meta.engines[value]; this.arrange(); }));
      this.before = new Map(meta.rewritten);
      const fresh = arrays.fresh.reduce((sum, one) => sum + one, 0) - this.before.size;
      const news = [[this.before.size, "changed (±)"], [fresh, "new (+)"], [meta.taken.length, "taken away (−)"]].filter(([count]) => count);
      const counted = news.map(([count, what]) => `${number(count)} ${what}`).join(", ") || "none changed";
      this.news.textContent = `${number(this.text.length)} lines${k === 0 ? "" : ` after ${meta.name}: ${counted}`}`;
      if (at) Object.assign(this.filters, { wanted: 0, changes: false });
      this.arrange();
      const lines = at ? this.rows.flatMap((row, n) => (row >= 0 && at(row) ? [n] : [])) : [];
      if (lines.length) this.list.choose(lines[0], true, lines.slice(1));
      if (lines.length > 1) this.below.prepend(make("p", {}, `${number(lines.length)} lines of the program came from here.`));
      if (at && !lines.length) fill(this.below, notice("No line of this program came from there."));
    } catch (problem) {
      fill(this.below, notice(problem.message, "error"));
    }
  }

  /** List the lines that the filters ask for. */
  arrange() {
    if (!this.text) return;
    const boxes = this.panel.querySelectorAll(".nki-bar input[type=checkbox]");
    boxes[0].checked = this.filters.changes;
    const select = this.engineChoice.querySelector("select");
    if (select) select.value = String(this.filters.wanted);
    this.rows = rowsOf(this.arrays.fresh, this.meta.taken, this.arrays.engine, this.filters);
    this.list.setCount(this.rows.length);
    if (!this.rows.length) fill(this.below, notice("No line is left by these filters."));
    else if (this.filters.changes && this.shown && this.rows.every((row) => row === GAP)) {
      fill(this.below, notice("This pass changed no line."));
    } else this.tell(undefined);
  }

  row(n) {
    const k = this.rows[n];
    if (k === GAP) return make("div", { class: "nki-faint" }, "⋯");
    if (k < 0) {
      return make("div", { class: "nki-taken", title: "taken away by this pass" },
        make("span", { class: "nki-line-number" }, `${" ".repeat(this.digits)} −`), make("span", { class: "nki-wrapped" }, this.meta.taken[-1 - k][1]));
    }
    const before = this.before.get(k);
    const fresh = this.arrays.fresh[k] && before === undefined;
    const sign = fresh ? "+" : before === undefined ? " " : "±";
    const shown = before === undefined ? [[this.text[k], 0]] : rewritten(before, this.text[k]).filter(([, kind]) => kind >= 0 || this.filters.removed);
    const line = make("div", { class: fresh ? "nki-fresh" : before === undefined ? "" : "nki-rewritten" },
      make("span", { class: "nki-line-number" }, `${String(k + 1).padStart(this.digits)} ${sign}`),
      make("span", { class: "nki-wrapped" }, shown.map(([text, kind]) => {
        if (kind < 0) return make("del", { class: "nki-taken" }, text);
        const parts = partsOf(text).map((part) => (part.tensor === undefined ? part : this.tensor(part.tensor)));
        return kind ? make("ins", { class: "nki-fresh" }, parts) : parts;
      })));
    const place = this.places[this.arrays.place[k] - 1];
    if (place) {
      line.title = `${place[0]}: ${place[1].trim()}`;
      line.style.borderLeftColor = this.theme.line(place[0]);
    }
    if (this.found && this.text[k].toLowerCase().includes(this.found)) line.classList.add("nki-found");
    // A line that is chosen stays told: the list may move under the pointer.
    line.addEventListener("mouseenter", () => { if (this.list.chosen < 0) this.tell(k); });
    return line;
  }

  /** Return the name of a tensor that tells where it is declared, and points out its other uses. */
  tensor(name) {
    const at = this.declared.get(name);
    const declared = at === undefined ? "" : this.text[at].trim();
    return make("span", {
      class: `nki-operand ${name === this.lit ? "nki-lit" : ""}`, title: declared || null,
      onmouseenter: (event) => {
        event.stopPropagation();
        this.light(name);
        if (declared && this.list.chosen < 0) this.declaration(at);
      },
      ondblclick: () => { if (at !== undefined) this.list.choose(this.rows.indexOf(at), true); },
    }, name);
  }

  light(name) {
    this.lit = name;
    for (const part of this.list.element.querySelectorAll(".nki-operand")) {
      part.classList.toggle("nki-lit", part.textContent === name);
    }
  }

  declaration(at) {
    const place = this.places[this.arrays.place[at] - 1];
    fill(this.below, make("p", {}, make("code", {}, this.text[at].trim()), make("span", { class: "nki-faint" }, "  double click goes to this line")),
      place ? sourceLine(place[0], place[1]) : null);
  }

  tell(k) {
    if (k === undefined || k === GAP) {
      fill(this.below, make("span", { class: "nki-faint" }, "Point at a line to see the line of the kernel it came from, at a tensor to see where it lies."));
      return;
    }
    if (k < 0) {
      fill(this.below, make("span", { class: "nki-faint" }, `${this.meta.name} took this line away; it stood in the program after ${this.meta.before}`));
      return;
    }
    const place = this.places[this.arrays.place[k] - 1];
    const { open } = this.context;
    const last = this.stages.slice(this.shown + 1).every((stage) => !stage.changed); // the program that runs
    const position = this.arrays.position[k];
    fill(this.below, place ? sourceLine(place[0], place[1]) : make("span", { class: "nki-faint" }, "this line has no place in the kernel"), " ",
      place && open.source ? button("Show in source", "Show this line of the kernel with its costs", () => open.source({ place: place[0] })) : null, " ",
      last && position >= 0 && open.layout ? button("Show elements", "Show which elements each operand reads and writes", () => open.layout({ position })) : null, " ",
      last && position >= 0 && open.stepper ? button("Step to it", "Show the values before and after this instruction", () => open.stepper({ position })) : null);
  }

  copy() {
    const differs = this.filters.removed && !this.filters.wanted && this.meta.taken.length + this.before.size > 0;
    const lines = this.rows.flatMap((k) => {
      if (k === GAP) return ["..."];
      if (k < 0) return [`- ${this.meta.taken[-1 - k][1]}`];
      if (!differs) return [this.text[k]];
      return [...(this.before.has(k) ? [`- ${this.before.get(k)}`] : []), `${this.arrays.fresh[k] ? "+" : " "} ${this.text[k]}`];
    });
    copyText(lines.join("\n"), this.panel).then((done) => {
      fill(this.below, notice(done ? `${number(this.rows.length)} lines are on the clipboard.` : "The browser did not let the text be copied."));
    });
  }

  find(event) {
    event.stopPropagation();
    if (event.key !== "Enter" || !this.text) return;
    this.found = this.search.value.trim().toLowerCase();
    const from = this.list.chosen;
    const count = this.rows.length;
    for (let k = 1; this.found && k <= count; k++) {
      const at = (Math.max(from, -1) + (event.shiftKey ? count - k : k)) % count;
      if (this.rows[at] >= 0 && this.text[this.rows[at]].toLowerCase().includes(this.found)) {
        this.list.choose(at, true);
        return;
      }
    }
    this.list.renew();
  }

  /** Point at the line of an instruction in the final program, or at all those of a line of the kernel. */
  reveal({ position, place }) {
    const last = this.stages.length - 1;
    if (position !== undefined) return this.show(last, (n) => this.arrays.position[n] === position);
    const of = (n) => this.places[this.arrays.place[n] - 1]?.[0] === place;
    return this.show(last, (n) => of(n) && this.arrays.position[n] >= 0).then(() => { // its instructions, else what else it made
      if (this.list.chosen < 0) this.show(last, of);
    });
  }

  refresh() {
    this.list.renew();
  }

  close() {
    this.list.close();
  }
}

/** Show the passes in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("ir");
  if (!meta.stages.length) {
    fill(panel, notice("The program of this run is not known."));
    return { refresh() {}, close() {} };
  }
  const view = new Passes(panel, context, meta.stages);
  view.show(meta.stages.findLastIndex((stage) => stage.changed));
  if (meta.counted) context.source.get("ir/counts").then((counts) => view.count(counts.meta.stages), () => {}); // without a kernel names do
  return view;
}
