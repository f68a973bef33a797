// Lists what the author should know, each with its line of the kernel.

import { button, choice, fill, make, sourceLine } from "../../widgets/static/elements.js";
import { number } from "../../widgets/static/words.js";

const PLACES = 3;

class Findings {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, context, meta, kind: "" });
    this.list = make("ol", { class: "nki-remarks" });
    this.status = make("span", { class: "nki-faint", "aria-live": "polite" });
    this.advice = make("ol", { class: "nki-remarks" }, meta.advice.map((a) => this.advised(a)));
    const kinds = [...new Set(meta.findings.map((f) => f.kind))];
    fill(panel,
      make("div", { class: "nki-bar" },
        kinds.length > 1 ? choice("show", [["", "all"], ...kinds.map((kind) => [kind, kind])], "", (value) => { this.kind = value; this.fillList(); }) : null,
        this.status),
      this.list,
      ...(meta.advice.length ? [make("h4", {}, "What would make it faster, the largest gain first"), this.advice] : []),
      ...(meta.warnings.length ? [make("h4", {}, "About the numbers"), make("ul", { class: "nki-findings nki-faint" },
        meta.warnings.map((w) => make("li", {}, `${w.kind}: ${w.message}`)))] : []));
    this.fillList();
  }

  fillList() {
    const shown = this.meta.findings.filter((f) => !this.kind || f.kind === this.kind);
    const serious = shown.filter((f) => f.serious).length;
    const more = this.meta.more ? `; ${number(this.meta.more)} more are not listed` : "";
    this.status.textContent = shown.length
      ? `${number(shown.length)} findings${serious ? `, ${number(serious)} of which may make a device refuse the kernel or compute other values` : ""}${more}`
      : "Nothing was found that is wrong or doubtful.";
    fill(this.list, ...shown.map((f) => this.entry(f)));
  }

  entry(finding) {
    return make("li", {},
      make("div", {}, make("span", { class: `nki-kind ${finding.serious ? "nki-serious" : ""}` }, finding.kind),
        finding.serious ? make("strong", {}, " may fail or differ on a device: ") : " ", finding.message),
      finding.help ? make("div", { class: "nki-faint" }, `help: ${finding.help}`) : null,
      finding.place ? this.line(finding.place, finding.source) : null);
  }

  advised({ rule, gain, message, help, places }) {
    return make("li", {},
      make("div", {}, make("span", { class: "nki-kind" }, rule), " ", gain ? make("strong", {}, gain) : null, gain ? ": " : "", message),
      help ? make("div", { class: "nki-faint" }, `help: ${help}`) : null,
      places.slice(0, PLACES).map(([place, source]) => this.line(place, source)),
      places.length > PLACES ? make("div", { class: "nki-faint" }, `and ${number(places.length - PLACES)} more lines`) : null);
  }

  /** Return a line of the kernel with ways to it. */
  line(place, source) {
    const { open } = this.context;
    return make("div", { class: "nki-use" }, sourceLine(place, source),
      open.source ? button("Show in source", `Go to ${place}`, () => open.source({ place })) : null,
      open.ir ? button("Show in IR", `Show the instructions of ${place}`, () => open.ir({ place })) : null);
  }

  refresh() {}

  close() {}
}

/** Show the findings in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("findings");
  return new Findings(panel, context, meta);
}
