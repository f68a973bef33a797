// Lists the variants of a kernel that were timed: bars to compare them, and a table of their figures.

import { button, drawn, fill, make, table } from "../../widgets/static/elements.js";
import { number, percent, time } from "../../widgets/static/words.js";

const WIDTH = 300;
const HEIGHT = 92;
const BASE = 76;
const ROWS_SHOWN = 60;

/** The variants of a view; `choose(numbers)` is called with the one that is clicked. */
export class VariantList {
  constructor(view, choose) {
    Object.assign(this, { view, choose });
    this.bars = make("div", { class: "nki-variants" });
    this.element = make("section", { "aria-label": "Combinations timed so far" });
  }

  show(variants, chosen) {
    const found = [...variants.values()];
    this.drawBars(found, chosen);
    this.fillTable(found, chosen);
  }

  drawBars(found, chosen) {
    const timed = found.filter((v) => v.total !== null);
    const most = Math.max(...timed.map((v) => v.total), 1);
    const least = timed.reduce((best, v) => (best === null || (v.total < best.total && !v.doubt) ? v : best), null);
    const step = Math.min(26, WIDTH / Math.max(1, found.length));
    const start = this.view.start.join("-");
    const bars = found.map((variant, k) => {
      const key = variant.numbers.join("-");
      const height = variant.total === null ? 6 : Math.max(2, (BASE - 6) * (variant.total / most));
      const kind = variant.problem ? "nki-failed" : key === chosen ? "nki-now" : variant.doubt ? "nki-doubted" : "";
      return drawn("g", { class: `nki-variant ${kind}`, onclick: () => this.choose(variant.numbers) },
        drawn("title", {}, `${this.view.words(variant)}: ${variant.problem ? "does not compile" : `${time(variant.total)}, ${variant.change}`}`),
        drawn("rect", { x: k * step, y: 0, width: step, height: HEIGHT, class: "nki-catch" }),
        drawn("rect", { x: k * step + 1, y: BASE - height, width: Math.max(1, step - 2), height }),
        step > 9 && (key === start || variant === least) ? drawn("text", { x: k * step + step / 2, y: HEIGHT - 4, "text-anchor": "middle" }, key === start ? "S" : "★") : null);
    });
    const words = least ? `the fastest is ${this.view.words(least)} with ${time(least.total)}` : "none could be timed";
    fill(this.bars,
      drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": `Times of ${number(found.length)} combinations; ${words}` }, bars),
      make("div", { class: "nki-faint" }, `total time of what was tried${least ? `; S start, ★ fastest: ${time(least.total)}` : ""}`));
  }

  fillTable(found, chosen) {
    const { parameters } = this.view.meta;
    const open = this.element.querySelector("details")?.open ?? true;
    const most = Math.max(...found.map((v) => v.total ?? 0), 1);
    const heads = ["", ...parameters.map((p) => p.name), "#total", "", "#vs start", "bound by", "#SBUF bytes in time", "#PSUM banks", "#instructions"];
    const known = (value, write) => (value === null ? "–" : write(value));
    const rows = found.slice(-ROWS_SHOWN).map((v) => [
      v.numbers.join("-") === chosen ? make("strong", { title: "shown now" }, "▸") : button("Show", `Show ${this.view.words(v)}`, () => this.choose(v.numbers)),
      ...parameters.map((p, k) => p.values[v.numbers[k]]),
      known(v.total, (ns) => time(ns)),
      make("span", { class: "nki-meter nki-small", role: "img", "aria-label": v.total === null ? "not timed" : `${percent(v.total / most)} of the longest` },
        make("span", { style: { width: `${(100 * (v.total ?? 0)) / most}%`, background: "var(--nki-accent)" } })),
      v.change, v.problem ? make("span", { class: "nki-flag", title: v.problem }, v.problem.split("\n")[0]) : [v.bound, v.doubt ? make("span", { class: "nki-flag", title: v.doubt }, v.doubt) : null],
      known(v.sbuf, number), known(v.psum, number), known(v.instructions, number),
    ]);
    fill(this.element, make("details", { open }, make("summary", {}, `${number(found.length)} combinations tried`),
      table(heads, rows, { class: "nki-table nki-tried" }), found.length > ROWS_SHOWN ? make("p", { class: "nki-faint" }, `the last ${ROWS_SHOWN} are listed`) : null));
  }
}
