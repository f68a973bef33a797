// Draws which operator of a model hands values to which, with the NKI kernels among them.

import { button, choice, fill, make } from "../../widgets/static/elements.js";
import { number } from "../../widgets/static/words.js";
import { Graph } from "../graph/view.js";

const TALLEST = 1100;

class ModelGraph extends Graph {
  choices(meta) {
    Object.assign(this, { part: meta.part || "all", kind: meta.by_module ? "modules" : "operators" });
    this.chooser = make("span", { class: "nki-fields" });
    this.fillChoices();
    return this.chooser;
  }

  fillChoices() {
    const parts = this.context.parts.length > 1
      ? choice("of", [["all", "forward and backward"], ...this.context.parts.map((part) => [part, part])], this.part, (value) => { this.part = value; this.again(); }) : null;
    fill(this.chooser, choice("nodes are", [["operators", "operators"], ["modules", "modules and kernels"]], this.kind, (value) => { this.kind = value; this.again(); }), parts);
  }

  again() {
    return this.ask(`${this.part}/${this.kind}`);
  }

  about() {
    const { nodes, edges } = this.meta;
    return `${number(nodes.filter((node) => node.kernel).length)} calls of NKI kernels among ${number(nodes.filter((node) => node.rows.length).length)} nodes, ${number(edges.length)} edges`;
  }

  take(meta) {
    super.take(meta);
    // A long chain begins at its top, at a size that can be read.
    const room = (this.panel.clientWidth || 780) - 22;
    const tall = (this.whole[2] * TALLEST) / room;
    if (this.whole[3] > tall) {
      this.box = [this.whole[0], this.whole[1], this.whole[2], tall];
      this.show();
    }
  }

  tell() {
    const node = this.meta.nodes[this.chosen];
    if (!node) {
      fill(this.below, make("span", { class: "nki-faint" }, "Choose a node to see its operators; kernels stand out. ~ is an estimate."));
      return;
    }
    const { edges, nodes } = this.meta;
    const { open, rows } = this.context;
    const names = (list, end) => list.map((edge) => nodes[edge[end]].name).join(", ") || "nothing";
    const shown = node.rows.slice(0, 6).map((n) => rows[n]);
    fill(this.below,
      shown.map((row) => make("p", { class: "nki-use" }, make("code", {}, `%${row.number} ${row.name}: ${row.inputs.join(", ")} -> ${row.outputs.join(", ")}`),
        open.operators ? button("Show row", "Show this operator in the list", () => open.operators({ row: row.number })) : null,
        row.kernel && open.kernels ? button("Show its views", "Show timeline, memory and program of this kernel", () => open.kernels({ run: row.run })) : null)),
      node.rows.length > shown.length ? make("p", { class: "nki-faint" }, `and ${number(node.rows.length - shown.length)} more`) : null,
      make("p", { class: "nki-faint" }, `${node.note}; values from ${names(edges.filter((e) => e.to === this.chosen), "from")}; to ${names(edges.filter((e) => e.from === this.chosen), "to")}`));
  }

  /** Choose the node of an operator. */
  async reveal({ row, part }) {
    const find = () => this.meta.nodes.findIndex((node) => node.rows.includes(row));
    if (find() < 0 && this.part !== "all") {
      this.part = part;
      this.fillChoices();
      await this.again();
    }
    if (find() >= 0) this.nodes[find()].focus({ preventScroll: true });
  }
}

/** Show the graph in `panel`; returns the view. */
export async function mount(panel, context) {
  const [{ meta }, operators] = await Promise.all([context.source.get("graph"), context.source.get("operators")]);
  const { rows } = operators.meta;
  return new ModelGraph(panel, { ...context, rows, parts: [...new Set(rows.map((row) => row.part))] }, meta);
}
