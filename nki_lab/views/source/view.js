// Shows the author's text with the cost of each line as a column of heat.

import { choice, fill, make, notice, button } from "../../widgets/static/elements.js";
import { LongList } from "../../widgets/static/list.js";
import { bytes, number } from "../../widgets/static/words.js";

const HEAD = ["cost", "engines us", "DMA us", "wait us", "moved"];

function us(ns) {
  return ns ? (ns / 1000).toLocaleString("en-US", { minimumFractionDigits: 3, maximumFractionDigits: 3 }) : "";
}

/** Return what can be asked of a line's cost, by name. */
function measures(costs, theme) {
  const total = (c) => Object.values(c.engines).reduce((sum, one) => sum + one, 0);
  const found = { total: ["all time", (c) => total(c) + c.dma] };
  for (const name of Object.keys(theme.table.labels)) {
    if (costs.some((c) => c.engines[name])) found[name] = [`time on ${theme.engineLabel(name)}`, (c) => c.engines[name] || 0];
  }
  if (costs.some((c) => c.dma)) found.dma = ["time of DMA transfers", (c) => c.dma];
  if (costs.some((c) => c.bytes)) found.bytes = ["bytes moved", (c) => c.bytes];
  if (costs.some((c) => c.wait)) found.wait = ["time waited", (c) => c.wait || 0];
  found.executed = ["instructions executed", (c) => c.executed];
  return found;
}

class Source {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, context, theme: context.theme, meta, by: "total" });
    this.byPlace = new Map(meta.costs.map((cost) => [cost.place, cost]));
    this.measures = measures(meta.costs, this.theme);
    this.opened = new Set(); // places of lines whose instructions are listed
    this.rows = this.lines();
    this.list = new LongList({
      row: (k) => this.row(k), height: 20, label: "Lines of the kernel with their costs", onChoose: (k) => this.tell(k),
      facts: { class: "nki-list nki-code nki-costs" },
    });
    this.below = make("div", { class: "nki-detail nki-stay", "aria-live": "polite" });
    const options = Object.entries(this.measures).map(([name, [text]]) => [name, text]);
    fill(panel,
      make("div", { class: "nki-bar" },
        choice("heat", options, this.by, (value) => { this.by = value; this.list.renew(); }),
        button("Costliest line", "Go to the line with the largest value", () => this.costliest()),
        make("span", { class: "nki-help" }, "Work of several engines at once is added up. ▲ has a finding. Arrow keys move, Enter shows the instructions of a line.")),
      this.legend = make("div", { class: "nki-legend" }),
      make("div", { class: "nki-cost-head nki-stay-above", "aria-hidden": "true" }, HEAD.map((text) => make("span", {}, text))),
      this.list.element, this.below);
    this.list.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      this.toProgram(this.list.chosen);
    });
    this.listColours();
    this.list.setCount(this.rows.length);
    this.tell(-1);
  }

  /** Return the lines that are shown: of every listing, then those whose text is not known. */
  lines() {
    const rows = [];
    const seen = new Set();
    const several = this.meta.listings.length > 1;
    for (const { heading, first, lines } of this.meta.listings) {
      if (several) rows.push({ heading: `${heading}, from line ${first}` });
      lines.forEach((text, n) => {
        const place = `${heading}, line ${first + n}`;
        seen.add(place);
        rows.push({ line: first + n, text, place, cost: this.byPlace.get(place) });
      });
    }
    const rest = this.meta.costs.filter((cost) => !seen.has(cost.place));
    if (rest.length && rows.length) rows.push({ heading: "elsewhere" });
    rest.forEach((cost) => rows.push({ line: cost.line || "", text: cost.text || cost.place, place: cost.place, cost }));
    return rows;
  }

  /** Say which colour is which engine, of those that work. */
  listColours() {
    const used = Object.keys(this.theme.table.labels).filter((name) => this.meta.costs.some((c) => (name === "dma" ? c.dma : c.engines[name])));
    fill(this.legend, used.map((name) => make("span", { class: "nki-key" },
      make("span", { class: "nki-chip", style: { background: this.theme.engine(name) } }), this.theme.engineLabel(name))));
  }

  row(k) {
    const { heading, line, text, place, cost } = this.rows[k];
    if (heading) return make("div", { class: "nki-faint" }, heading);
    const of = this.measures[this.by][1];
    const most = Math.max(1e-9, ...this.meta.costs.map(of));
    const share = cost ? of(cost) / most : 0;
    const remarks = this.meta.remarks[place];
    // Headings name the columns where there is room for them; else each value has its name and unit beside it.
    const cell = (name, value, unit) => make("span", {}, value && [
      make("span", { class: "nki-cost-name" }, `${name} `), value, unit && make("span", { class: "nki-cost-unit" }, ` ${unit}`)]);
    const cells = cost && cost.executed ? [
      this.bar(cost, share), cell("engines", us(Object.values(cost.engines).reduce((a, b) => a + b, 0)), "us"), cell("DMA", us(cost.dma), "us"),
      cell("wait", us(cost.wait), "us"), cell("moved", cost.bytes ? bytes(cost.bytes) : ""),
    ] : [];
    const plain = text.replaceAll("\t", "    ");
    const hang = `${plain.length - plain.trimStart().length + 4}ch`; // what is wrapped stands behind the line's indent
    const row = make("div", { title: remarks ? remarks.join("\n") : null },
      make("span", { class: "nki-heat", style: { background: share ? this.theme.heat(share) : "" } }),
      make("span", { class: "nki-line-number" }, String(line)),
      make("span", remarks ? { class: "nki-flag", "aria-label": "has findings" } : {}, remarks ? "▲" : ""),
      make("span", { class: "nki-text", style: { paddingLeft: `min(40%, ${hang})`, textIndent: `max(-40cqw, -${hang})` } }, plain),
      make("span", { class: "nki-cost" }, cells), this.listed(place));
    // Once a line is chosen it stays: on the way to its buttons the pointer crosses others.
    row.addEventListener("mouseenter", () => { if (this.list.chosen < 0) this.tell(k); });
    return row;
  }

  /** Return a bar as long as the line's share, divided by engine. */
  bar(cost, share) {
    const parts = this.by === "total" ? [...Object.entries(cost.engines), ["dma", cost.dma]] : [[this.by, 1]];
    const sum = parts.reduce((total, [, value]) => total + value, 0) || 1;
    return make("span", { class: "nki-meter nki-stack" }, parts.filter(([, value]) => value).map(([name, value]) => make("span", {
      style: { width: `${(100 * share * value) / sum}%`, background: this.theme.engine(name) }, title: `${this.theme.engineLabel(name)} ${us(value)} us`,
    })));
  }

  tell(k) {
    const { cost, place } = this.rows[k] || {};
    const remarks = this.meta.remarks[place] || [];
    if (!cost && !remarks.length) {
      fill(this.below, make("span", { class: "nki-faint" }, place ? `${place}: no instruction came from this line` : "Point at a line to see its costs by engine and what was found there."));
      return;
    }
    const { open } = this.context;
    const engines = Object.entries(cost?.engines || {}).map(([name, ns]) => make("span", { class: "nki-engine" },
      make("span", { class: "nki-chip", style: { background: this.theme.engine(name) } }), `${this.theme.engineLabel(name)} ${us(ns)} us`));
    fill(this.below,
      make("p", { class: "nki-use" }, make("span", { class: "nki-place" }, place), ...engines,
        cost?.dma ? make("span", { class: "nki-engine" }, make("span", { class: "nki-chip", style: { background: this.theme.engine("dma") } }),
          `DMA ${us(cost.dma)} us for ${bytes(cost.bytes)}`) : null,
        cost?.wait ? make("span", {}, `waited ${us(cost.wait)} us`) : null,
        cost ? make("span", {}, `${number(cost.executed)} instructions executed, ${number(cost.operations)} in the program`) : null,
        cost ? (open.ir ? button("Show in IR", "Show the instructions of this line (Enter)", () => open.ir({ place }))
          : button("Instructions", "List the instructions of this line (Enter)", () => this.toProgram(k))) : null,
        cost && open.stepper ? button("Step to it", "Run to the first instruction of this line and show its values", () => open.stepper({ place })) : null,
        cost && open.timeline ? button("Show in timeline", "Let the events of this line stand out", () => open.timeline({ place })) : null),
      remarks.map((text) => make("p", {}, make("span", { class: "nki-flag" }, "▲ "), text)));
  }

  /** Show the instructions of a line: in the program's text where it is a tab, else below the line, or hide them. */
  async toProgram(k) {
    const { cost, place } = this.rows[k] || {};
    if (!cost) return;
    if (this.context.open.ir) {
      this.context.open.ir({ place });
      return;
    }
    try {
      this.instructions ??= (await this.context.source.get("source/instructions")).meta;
      if (!this.opened.delete(place)) this.opened.add(place);
      this.list.renew();
      this.list.choose(k);
    } catch (problem) {
      fill(this.below, notice(problem.message, "error"));
    }
  }

  /** Return the instructions of a line, where somebody has asked for them. */
  listed(place) {
    if (!this.opened.has(place)) return null;
    const { texts, count } = this.instructions[place] || { texts: [], count: 0 };
    return make("div", { class: "nki-instructions" }, texts.map((text) => make("div", {}, text)),
      count > texts.length ? make("div", { class: "nki-faint" }, `and ${number(count - texts.length)} more`) : null);
  }

  costliest() {
    const of = this.measures[this.by][1];
    let best = -1;
    this.rows.forEach((row, k) => { if (row.cost && (best < 0 || of(row.cost) > of(this.rows[best].cost))) best = k; });
    this.list.choose(best, true);
    this.list.element.focus();
  }

  reveal({ place }) {
    const k = this.rows.findIndex((row) => row.place === place);
    if (k >= 0) this.list.choose(k, true);
    else fill(this.below, notice(`The text of ${place} is not known.`));
  }

  refresh() {
    this.listColours();
    this.list.renew();
  }

  close() {
    this.list.close();
  }
}

/** Show the author's lines in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("source");
  if (!meta.listings.length && !meta.costs.length) {
    fill(panel, notice("No line of the author's text is known."));
    return { refresh() {}, close() {} };
  }
  return new Source(panel, context, meta);
}
