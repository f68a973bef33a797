// What should the author know, and where in the kernel is it?

import { button, choice, fill, make, notice, sourceLine } from "./elements.js";
import { number } from "./words.js";

class Findings {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, context, meta, kind: "" });
    this.list = make("ol", { class: "nki-remarks" });
    this.status = make("span", { class: "nki-faint", "aria-live": "polite" });
    const kinds = [...new Set(meta.findings.map((f) => f.kind))];
    fill(panel,
      make("div", { class: "nki-bar" },
        kinds.length > 1 ? choice("show", [["", "all"], ...kinds.map((kind) => [kind, kind])], "", (value) => { this.kind = value; this.fillList(); }) : null,
        this.status),
      this.list,
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
      : "Nothing was found.";
    fill(this.list, ...shown.map((f) => this.entry(f)));
  }

  entry(finding) {
    const { open } = this.context;
    const at = finding.place;
    return make("li", {},
      make("div", {}, make("span", { class: `nki-kind ${finding.serious ? "nki-serious" : ""}` }, finding.kind),
        finding.serious ? make("strong", {}, " may fail or differ on a device: ") : " ", finding.message),
      finding.help ? make("div", { class: "nki-faint" }, `help: ${finding.help}`) : null,
      at ? make("div", { class: "nki-use" }, sourceLine(at, finding.source),
        open.source ? button("Show in source", `Go to ${at}`, () => open.source({ place: at })) : null,
        open.ir ? button("Show in IR", `Show the instructions of ${at}`, () => open.ir({ place: at })) : null) : null);
  }

  refresh() {}

  close() {}
}

/** Show the findings in `panel`; returns the view. */
export async function mountFindings(panel, context) {
  const { meta } = await context.source.get("findings");
  if (!meta.findings.length && !meta.warnings.length) {
    fill(panel, notice("Nothing was found."));
    return { refresh() {}, close() {} };
  }
  return new Findings(panel, context, meta);
}
