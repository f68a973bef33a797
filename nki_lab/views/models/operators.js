// Lists the operators of a model with their times; a chosen one tells its tensors, its line, and what it is bound by.

import { button, choice, fill, make, sourceLine } from "../../widgets/static/elements.js";
import { LongList } from "../../widgets/static/list.js";
import { bytes, number, percent } from "../../widgets/static/words.js";

const HEAD = ["operator", "module", "time us", "share", "moved", "FLOP", "bound by"];

function us(ns) {
  return (ns / 1000).toLocaleString("en-US", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

class Operators {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, context, theme: context.theme, meta, order: "execution", shown: "all", rows: [] });
    const parts = [...new Set(meta.rows.map((row) => row.part))];
    const kernels = meta.rows.some((row) => row.kernel);
    this.list = new LongList({
      row: (k) => this.row(k), height: 22, label: "Operators of the model", onChoose: (k) => this.tell(k), facts: { class: "nki-list nki-operators" },
    });
    this.below = make("div", { class: "nki-detail nki-stay", "aria-live": "polite" });
    fill(panel,
      make("p", {}, meta.heading), make("p", { class: "nki-faint" }, meta.basis),
      make("div", { class: "nki-bar" },
        choice("order", [["execution", "execution"], ["time", "time, longest first"]], this.order, (value) => this.change({ order: value })),
        choice("show", [["all", "all operators"], ...(kernels ? [["kernels", "NKI kernels"]] : []), ...(parts.length > 1 ? parts.map((part) => [part, part]) : [])],
          this.shown, (value) => this.change({ shown: value }))),
      make("div", { class: "nki-operators-head nki-stay-above", "aria-hidden": "true" }, HEAD.map((text) => make("span", {}, text))),
      this.list.element, this.below, this.findings());
    this.change({});
  }

  findings() {
    const { findings } = this.meta;
    if (!findings.length) return null;
    return [make("h4", {}, "On a device"), make("ol", { class: "nki-remarks" }, findings.map((f) => make("li", {},
      make("div", {}, make("span", { class: "nki-kind nki-serious" }, f.kind), " ", f.message),
      make("div", { class: "nki-faint" }, `help: ${f.help}`), f.place ? make("div", { class: "nki-use" }, sourceLine(f.place, f.source)) : null)))];
  }

  change(facts) {
    Object.assign(this, facts);
    const { rows } = this.meta;
    this.rows = rows.filter((row) => this.shown === "all" || (this.shown === "kernels" ? row.kernel : row.part === this.shown));
    if (this.order === "time") this.rows.sort((a, b) => b.ns - a.ns || a.number - b.number);
    this.list.setCount(this.rows.length);
    this.tell(-1);
  }

  row(k) {
    const { number: n, name, path, ns, bytes: moved, flops, binds, kernel, calls, part } = this.rows[k];
    const share = this.meta.total ? ns / this.meta.total : 0;
    const colour = kernel ? this.theme.series(0) : this.theme.now.faint;
    return make("div", { class: kernel ? "nki-kernel" : null, title: kernel ? "an NKI kernel: modelled" : "an estimate" },
      make("span", { class: "nki-operator" }, make("span", { class: "nki-line-number" }, `%${n}`),
        make("span", { class: "nki-text" }, name.replace(/^aten::/, ""), calls > 1 ? ` x ${number(calls)}` : ""), part === "backward" ? make("span", { class: "nki-kind" }, part) : null),
      make("span", { class: "nki-faint" }, path),
      make("span", { class: "nki-num" }, make("span", { class: "nki-meter" }, make("span", { style: { width: `${100 * share}%`, background: colour } })), make("span", { class: "nki-time" }, `${kernel ? "" : "~"}${us(ns)}`), make("span", { class: "nki-cost-unit" }, " us")),
      make("span", { class: "nki-num" }, percent(share)), make("span", { class: "nki-num" }, bytes(moved)),
      make("span", { class: "nki-num" }, flops ? number(flops) : "", flops ? make("span", { class: "nki-cost-unit" }, " FLOP") : ""), make("span", { class: "nki-faint" }, binds));
  }

  tell(k) {
    const row = this.rows[k];
    if (!row) {
      fill(this.below, make("span", { class: "nki-faint" }, "Choose an operator to see its tensors and its line; arrow keys move."));
      return;
    }
    const { open } = this.context;
    const from = row.sources.map((s) => (typeof s === "string" ? s : `%${s} ${this.meta.rows[s].name}`)).join(", ") || "parameters";
    fill(this.below,
      make("p", { class: "nki-use" }, make("code", {}, `%${row.number} ${row.name}: ${row.inputs.join(", ")} -> ${row.outputs.join(", ")}`),
        open.graph ? button("Show in graph", "Show this operator in the graph", () => open.graph({ row: row.number, part: row.part })) : null,
        row.kernel && open.kernels ? button("Show its views", "Show timeline, memory and program of this kernel", () => open.kernels({ run: row.run })) : null,
        row.kernel && open.calls ? button("Show custom call", "Show how the official tools embed it", () => open.calls({ row: row.number })) : null),
      make("p", { class: "nki-faint" }, `${row.kernel ? "modelled" : "estimated"}; ${row.part}; bound by ${row.binds}; values from ${from}`),
      row.place ? make("p", {}, sourceLine(row.place, row.source)) : null);
  }

  /** Choose an operator by its number. */
  reveal({ row }) {
    if (!this.rows.some((one) => one.number === row)) this.change({ shown: "all" });
    this.list.choose(this.rows.findIndex((one) => one.number === row), true);
  }

  refresh() {
    this.list.renew();
  }

  close() {
    this.list.close();
  }
}

/** Show the operators in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("operators");
  return new Operators(panel, context, meta);
}
