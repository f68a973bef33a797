// What did each pass make of the program?

import { fill, make, notice, sourceLine } from "./elements.js";
import { LongList } from "./list.js";
import { number } from "./words.js";

class Passes {
  constructor(panel, context, stages) {
    Object.assign(this, { panel, context, stages, showAll: false, shown: -1 });
    this.names = make("div", { class: "nki-passes", role: "group", "aria-label": "Passes of the compiler" });
    this.list = new LongList({
      row: (k) => this.row(k), label: "Program text", onChoose: (k) => this.tell(k),
      facts: { class: "nki-list nki-code" },
    });
    this.below = make("div", { class: "nki-detail" });
    const box = make("input", { type: "checkbox", onchange: () => { this.showAll = box.checked; this.listPasses(); } });
    const unchanged = stages.filter((stage) => !stage.changed).length;
    this.search = make("input", { type: "search", placeholder: "find in the text", "aria-label": "Find in the text",
      onkeydown: (event) => this.find(event) });
    this.news = make("span", { class: "nki-faint" });
    fill(panel,
      make("div", { class: "nki-bar" }, this.search,
        unchanged ? make("label", { class: "nki-choice" }, box, `show ${unchanged} passes that changed nothing`) : null, this.news),
      make("div", { class: "nki-split" }, this.names, this.list.element), this.below);
    this.listPasses();
  }

  listPasses() {
    fill(this.names, ...this.stages.flatMap((stage, k) => {
      if (!stage.changed && !this.showAll && k !== this.shown) return [];
      const counts = stage.written === undefined ? "" : `+${number(stage.written)} −${number(stage.taken)} lines`;
      const what = k === 0 ? "as traced" : stage.changed ? counts : "unchanged";
      return [make("button", {
        type: "button", class: stage.changed ? null : "nki-unchanged", "aria-pressed": String(k === this.shown),
        onclick: () => this.show(k),
      }, make("span", {}, stage.name), make("span", { class: "nki-faint" }, what))];
    }));
  }

  /** Show the program after pass `k`; `position` is an instruction to point at. */
  async show(k, position = null) {
    this.shown = k;
    this.listPasses();
    fill(this.below, notice("…"));
    try {
      const { meta, arrays } = await this.context.source.get(`ir/${k}`);
      if (this.shown !== k) return;
      this.text = meta.text.split("\n");
      Object.assign(this, { places: meta.places, arrays, digits: String(this.text.length).length });
      this.list.setCount(this.text.length);
      const fresh = arrays.fresh.reduce((sum, one) => sum + one, 0);
      this.news.textContent = k === 0 ? `${number(this.text.length)} lines` :
        `${number(this.text.length)} lines, ${number(fresh)} written by ${meta.name} (marked +)`;
      this.tell(-1);
      const at = position === null ? -1 : arrays.position.indexOf(position);
      if (at >= 0) this.list.choose(at, true);
    } catch (problem) {
      fill(this.below, notice(problem.message, "error"));
    }
  }

  row(k) {
    const fresh = this.arrays.fresh[k];
    const line = make("div", { class: fresh ? "nki-fresh" : "" },
      make("span", { class: "nki-line-number" }, `${String(k + 1).padStart(this.digits)} ${fresh ? "+" : " "}`), this.text[k]);
    const place = this.places[this.arrays.place[k] - 1];
    if (place) {
      line.title = `${place[0]}: ${place[1].trim()}`;
      line.style.borderLeftColor = this.context.theme.line(place[0]);
    }
    if (this.found && this.text[k].toLowerCase().includes(this.found)) line.classList.add("nki-found");
    line.addEventListener("mouseenter", () => this.tell(k));
    return line;
  }

  tell(k) {
    const place = k >= 0 ? this.places[this.arrays.place[k] - 1] : null;
    fill(this.below, k < 0
      ? make("span", { class: "nki-faint" }, "Point at a line to see the line of the kernel it came from.")
      : place ? sourceLine(place[0], place[1]) : make("span", { class: "nki-faint" }, "this line has no place in the kernel"));
  }

  find(event) {
    event.stopPropagation();
    if (event.key !== "Enter" || !this.text) return;
    this.found = this.search.value.trim().toLowerCase();
    const from = this.list.chosen;
    const count = this.text.length;
    for (let k = 1; this.found && k <= count; k++) {
      const at = (Math.max(from, -1) + (event.shiftKey ? count - k : k)) % count;
      if (this.text[at].toLowerCase().includes(this.found)) {
        this.list.choose(at, true);
        return;
      }
    }
    this.list.renew();
  }

  /** Point at the line of an instruction in the final program. */
  reveal({ position }) {
    return this.show(this.stages.length - 1, position);
  }

  refresh() {
    this.list.renew();
  }

  close() {
    this.list.close();
  }
}

/** Show the passes in `panel`; returns the view. */
export async function mountPasses(panel, context) {
  const { meta } = await context.source.get("ir");
  if (!meta.stages.length) {
    fill(panel, notice("The program of this run is not known."));
    return { refresh() {}, close() {} };
  }
  const view = new Passes(panel, context, meta.stages);
  view.show(meta.stages.findLastIndex((stage) => stage.changed));
  return view;
}
