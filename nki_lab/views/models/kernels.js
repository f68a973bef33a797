// Shows the kernels of a model side by side with their times, and the views of the one that is chosen.

import { fill, make } from "../../widgets/static/elements.js";
import { duration } from "../../widgets/static/words.js";

class Kernels {
  constructor(panel, context, meta) {
    Object.assign(this, { context, runs: meta.runs, chosen: -1, shown: null });
    const longest = Math.max(...meta.runs.map((run) => run.ns));
    this.cards = meta.runs.map((run, k) => make("button", { type: "button", class: "nki-program", "aria-pressed": "false", onclick: () => this.choose(k) },
      make("strong", {}, run.name), make("span", { class: "nki-kind" }, run.part), make("span", { class: "nki-value" }, duration(run.ns)),
      make("span", { class: "nki-meter" }, make("span", { style: { width: `${(100 * run.ns) / longest}%`, background: context.theme.series(0) } })),
      make("span", { class: "nki-faint" }, `bound by ${run.binds}`),
      make("span", { class: "nki-faint" }, run.rows.map((n) => `%${n}`).join(", "))));
    this.inner = make("div", { class: "nki-nested" });
    fill(panel, make("div", { class: "nki-programs", role: "group", "aria-label": "Kernels of the model" }, this.cards), this.inner);
    this.choose(0);
  }

  /** Show the views of a run. */
  choose(k) {
    if (k === this.chosen || !this.runs[k]) return;
    this.chosen = k;
    this.cards.forEach((card, n) => card.setAttribute("aria-pressed", String(n === k)));
    const tab = this.shown?.current;
    this.shown?.close();
    const { head, tabs, prefix } = this.runs[k];
    this.shown = this.context.nested(this.inner, head, tabs, prefix);
    if (tab) this.shown.show(tab);
  }

  reveal({ run }) {
    this.choose(run);
  }

  /** Take the colours of the theme, which may have changed. */
  refresh() {
    for (const card of this.cards) card.querySelector(".nki-meter span").style.background = this.context.theme.series(0);
  }

  close() {
    this.shown?.close();
  }
}

/** Show the kernels in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("kernels");
  return new Kernels(panel, context, meta);
}
