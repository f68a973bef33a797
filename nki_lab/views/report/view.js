// Shows the report of a run: figures, engines, the costliest lines, and what the author should know.

import { fill, make, sourceLine, table } from "../../widgets/static/elements.js";
import { number, percent } from "../../widgets/static/words.js";

function bar(share, colour, label) {
  return make("span", { class: "nki-meter", role: "img", "aria-label": label },
    make("span", { style: { width: `${Math.min(100, 100 * share)}%`, background: colour } }));
}

/** Return a bar divided by engine, as long as its share of the largest. */
function stack(l, most, theme) {
  const parts = [...Object.entries(l.engines), ["dma", 1000 * l.dma_us]].filter(([, ns]) => ns);
  return make("span", { class: "nki-meter nki-parts", role: "img", "aria-label": `${microseconds(l.engine_us + l.dma_us)} us` },
    parts.map(([name, ns]) => make("span", {
      style: { width: `${ns / 10 / most}%`, background: theme.engine(name) }, title: `${theme.engineLabel(name)} ${microseconds(ns / 1000)} us`,
    })));
}

function microseconds(value) {
  return value === null || value === undefined ? "" :
    value.toLocaleString("en-US", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

function engines(meta, theme) {
  return table(["engine", "busy", "#share", "#active us", "#waiting us", "#count"], meta.engines.map((e) => [
    make("span", { class: "nki-engine", title: e.tracks },
      make("span", { class: "nki-chip", style: { background: theme.engine(e.engine) } }), theme.engineLabel(e.engine)),
    bar(e.share, theme.engine(e.engine), `${theme.engineLabel(e.engine)} busy ${percent(e.share)}`),
    percent(e.share), microseconds(e.active_us), microseconds(e.waiting_us), number(e.count),
  ]));
}

function lines(meta, theme) {
  const most = Math.max(...meta.lines.map((l) => l.engine_us + l.dma_us), 1e-9);
  return table(["line", "by engine", "#engine sum us", "#DMA us", "#instructions"], meta.lines.map((l) => [
    sourceLine(l.place, l.source),
    stack(l, most, theme),
    microseconds(l.engine_us), microseconds(l.dma_us), number(l.count),
  ]));
}

function remarks(meta) {
  const found = meta.findings.map((f) => make("li", {},
    make("strong", {}, f.kind), `: ${f.message}`, f.help ? make("div", { class: "nki-faint" }, `help: ${f.help}`) : null,
    f.place ? make("div", {}, sourceLine(f.place, f.source)) : null));
  if (meta.more_findings) found.push(make("li", {}, `and ${number(meta.more_findings)} more`));
  return found;
}

class Report {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, theme: context.theme, meta });
    this.refresh();
  }

  refresh() {
    const { meta, theme } = this;
    const findings = remarks(meta);
    const open = this.panel.querySelector("details")?.open;
    fill(this.panel,
      make("div", { class: "nki-figures" }, meta.figures.map((f) => make("div", { class: "nki-figure" },
        make("div", { class: "nki-faint" }, f.label), make("div", { class: "nki-value" }, f.value), make("div", { class: "nki-faint" }, f.note)))),
      ...(findings.length ? [make("h4", {}, "Findings"), make("ul", { class: "nki-findings" }, findings)] : []),
      ...(meta.advice.length ? [make("h4", {}, "Advice, the largest gain first"), make("ol", { class: "nki-findings" },
        meta.advice.map((a) => make("li", {}, a.message, a.help ? make("div", { class: "nki-faint" }, `help: ${a.help}`) : null)))] : []),
      make("h4", {}, "Engines"), engines(meta, theme),
      ...(meta.lines.length ? [make("h4", {}, "Lines that ask for most time"), lines(meta, theme)] : []),
      ...(meta.warnings.length ? [make("h4", {}, "About these numbers"), make("ul", { class: "nki-findings nki-faint" },
        meta.warnings.map((w) => make("li", {}, `${w.kind}: ${w.message}`)))] : []),
      make("details", { open }, make("summary", {}, "As text"), make("pre", {}, meta.text)));
  }

  close() {}
}

/** Show the report in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("report");
  return new Report(panel, context, meta);
}
