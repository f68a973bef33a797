// Draws which instruction hands values to which, in layers from left to right or from top to bottom.

import { button, choice, drawn, fill, make, sourceLine, uniqueNumber } from "../../widgets/static/elements.js";
import { number } from "../../widgets/static/words.js";

const MARGIN = 14;
const LETTER = { name: 7.3, note: 6.5 };

/** Return the path of an edge through its points; layers run to the right, or down. */
export function pathOf(points, down = false) {
  let path = `M ${points[0][0]} ${points[0][1]}`;
  for (let k = 1; k < points.length; k++) {
    const [[x0, y0], [x1, y1]] = [points[k - 1], points[k]];
    if (y0 === y1 || x0 === x1) path += ` L ${x1} ${y1}`;
    else if (down) path += ` C ${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`;
    else path += ` C ${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;
  }
  return path;
}

/** Return all nodes that can be reached from one along edges: those behind it, or those before it. */
export function reach(edges, node, forward) {
  const found = new Set();
  const open = [node];
  while (open.length) {
    const at = open.pop();
    for (const edge of edges) {
      const [from, to] = forward ? [edge.from, edge.to] : [edge.to, edge.from];
      if (from === at && !found.has(to)) {
        found.add(to);
        open.push(to);
      }
    }
  }
  return found;
}

/** A graph that can be moved, zoomed and walked through; those who inherit say what its nodes are. */
export class Graph {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, context, theme: context.theme, meta, chosen: -1, number: uniqueNumber() });
    this.svg = drawn("svg", { class: "nki-graph", role: "group",
      onwheel: (event) => this.wheel(event), onpointerdown: (event) => this.grab(event), onkeydown: (event) => this.key(event), ondblclick: () => this.fit() });
    this.below = make("div", { class: "nki-detail nki-stay", "aria-live": "polite" });
    this.news = make("span", { class: "nki-faint" });
    fill(panel,
      make("div", { class: "nki-bar" },
        this.choices(meta),
        button("+", "Zoom in (+)", () => this.zoom(0.7)), button("−", "Zoom out (-)", () => this.zoom(1 / 0.7)), button("Fit", "Show everything (0)", () => this.fit()),
        this.news,
        make("span", { class: "nki-help" }, "Click a node to see what it depends on; arrow keys follow edges, wheel zooms, drag moves.")),
      this.svg, this.below);
    this.take(meta);
  }

  /** Return what can be chosen above the graph. */
  choices(meta) {
    return choice("nodes are", [["lines", "source lines"], ["instructions", "instructions"]], meta.by_line ? "lines" : "instructions", (value) => this.ask(value));
  }

  /** Say in a few words what is drawn. */
  about(meta) {
    const { nodes, edges } = this.meta;
    const count = nodes.reduce((sum, node) => sum + node.count, 0);
    return meta.by_line ? `a node holds the instructions of a line on one engine: ${number(count)} in all` : `${number(nodes.length)} nodes, ${number(edges.length)} edges`;
  }

  async ask(kind) {
    try {
      this.take((await this.context.source.get(`graph/${kind}`)).meta);
    } catch (problem) {
      this.news.textContent = problem.message;
    }
  }

  /** Show a graph, or say why there is none. */
  take(meta) {
    this.meta = meta.problem ? { nodes: [], edges: [], size: [0, 0], node: [1, 1] } : meta;
    this.chosen = -1;
    const { nodes, edges, size: [width, height] } = this.meta;
    // A small graph is not blown up beyond the size of its letters.
    const least = Math.max(0, (this.panel.clientWidth || 780) - 24 - width) / 2;
    this.whole = [-MARGIN - least, -MARGIN, width + 2 * (MARGIN + least), height + 2 * MARGIN];
    this.box = [...this.whole];
    const room = (this.panel.clientWidth || 780) - 22;
    this.svg.style.height = `${Math.round(Math.min(1100, Math.max(160, (this.whole[3] * room) / this.whole[2])))}px`;
    this.news.textContent = meta.problem ? `There is no graph: ${meta.problem}.` : this.about(meta);
    this.svg.setAttribute("aria-label", `Data flow: ${nodes.length} nodes, ${edges.length} edges. Arrow keys follow them.`);
    this.draw();
    this.tell();
  }

  draw() {
    const { meta, theme } = this;
    const [w, h] = meta.node;
    const arrow = `nki-arrow-${this.number}`;
    this.edges = meta.edges.map((edge) => drawn("path", { d: pathOf(edge.route, meta.down), class: "nki-edge", "marker-end": `url(#${arrow})` },
      drawn("title", {}, `${meta.nodes[edge.from].name} hands ${edge.names.join(", ")} to ${meta.nodes[edge.to].name}`)));
    this.nodes = meta.nodes.map((node, k) => {
      const colour = node.engine ? theme.engine(node.engine) : node.kernel ? theme.series(0) : theme.now.faint;
      const times = node.count > 1 ? ` x ${node.count}` : "";
      const fit = (text, letter) => (text.length * letter > w - 18 ? `${text.slice(0, Math.floor((w - 18) / letter) - 1)}…` : text);
      const note = node.engine ? `${theme.engineLabel(node.engine)}${node.place ? `, ${node.place.split(", ").pop()}` : ""}` : node.note;
      return drawn("g", { class: `nki-node ${node.tensor >= 0 ? "nki-given" : ""} ${node.kernel ? "nki-kernel" : ""}`, transform: `translate(${node.at[0]} ${node.at[1]})`, tabindex: k ? "-1" : "0", role: "button",
        "aria-label": `${node.name}${times}, ${note}`, onclick: () => this.choose(k), onfocus: () => this.choose(k) },
      drawn("rect", { width: w, height: h, rx: node.tensor >= 0 ? h / 2 : 3 }), drawn("rect", { class: "nki-band", width: node.tensor >= 0 ? 0 : 5, height: h, fill: colour }),
      drawn("text", { x: 12, y: 14, class: "nki-node-name" }, fit(node.name + times, LETTER.name)), drawn("text", { x: 12, y: 27, class: "nki-node-note" }, fit(note, LETTER.note)),
      drawn("title", {}, node.text || `${node.name}: ${node.note}`));
    });
    fill(this.svg, drawn("defs", {}, drawn("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      drawn("path", { d: "M 0 0 L 8 4 L 0 8 z", class: "nki-arrow" }))), ...this.edges, ...this.nodes);
    this.show();
    this.mark();
  }

  show() {
    this.svg.setAttribute("viewBox", this.box.join(" "));
  }

  fit() {
    this.box = [...this.whole];
    this.show();
  }

  zoom(factor, at = [this.box[0] + this.box[2] / 2, this.box[1] + this.box[3] / 2]) {
    const [x, y, w, h] = this.box;
    const least = Math.min(1, 240 / this.whole[2]);
    const by = Math.min(1.2 * this.whole[2], Math.max(least * this.whole[2], w * factor)) / w;
    this.box = [at[0] - (at[0] - x) * by, at[1] - (at[1] - y) * by, w * by, h * by];
    this.show();
  }

  /** Return the point of the drawing under a pointer. */
  point(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [at.x, at.y];
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey && document.activeElement?.closest(".nki-graph") !== this.svg) return; // the page is scrolled
    event.preventDefault();
    event.nkiZoom = true;
    this.zoom(Math.exp(event.deltaY * 0.002), this.point(event));
  }

  grab(event) {
    if (event.button !== 0) return;
    const from = this.point(event);
    const moved = (other) => {
      const at = this.point(other);
      this.box[0] += from[0] - at[0];
      this.box[1] += from[1] - at[1];
      this.show();
    };
    const release = () => {
      removeEventListener("pointermove", moved);
      removeEventListener("pointerup", release);
    };
    addEventListener("pointermove", moved);
    addEventListener("pointerup", release);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { edges, nodes } = this.meta;
    const at = this.chosen;
    const [along, across] = this.meta.down ? [1, 0] : [0, 1];
    const beside = (by) => {
      const same = nodes.map((node, k) => k).filter((k) => nodes[k].at[along] === nodes[at].at[along]).sort((a, b) => nodes[a].at[across] - nodes[b].at[across]);
      return same[same.indexOf(at) + by];
    };
    const moves = [() => edges.find((edge) => edge.from === at)?.to, () => edges.find((edge) => edge.to === at)?.from, () => beside(1), () => beside(-1)];
    const [on, back, next, before] = at < 0 ? Array(4).fill(() => 0) : moves;
    const turned = this.meta.down;
    const act = {
      ArrowRight: turned ? next : on, ArrowLeft: turned ? before : back, ArrowDown: turned ? on : next, ArrowUp: turned ? back : before, Escape: () => -1,
      "+": () => { this.zoom(0.7); return at; }, "-": () => { this.zoom(1 / 0.7); return at; }, 0: () => { this.fit(); return at; },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    const found = act();
    if (found === -1) this.choose(-1);
    else if (found !== undefined && this.nodes[found]) this.nodes[found].focus({ preventScroll: true });
  }

  choose(k) {
    this.chosen = k;
    this.nodes.forEach((node, n) => node.setAttribute("tabindex", n === Math.max(0, k) ? "0" : "-1"));
    if (k >= 0) this.bring(k);
    this.mark();
    this.tell();
  }

  /** Move the drawing so that a node is in sight. */
  bring(k) {
    const [x, y] = this.meta.nodes[k].at;
    const [w, h] = this.meta.node;
    const shift = (low, size, from, to) => (from < low ? from - MARGIN - low : to > low + size ? to + MARGIN - low - size : 0);
    this.box[0] += shift(this.box[0], this.box[2], x, x + w);
    this.box[1] += shift(this.box[1], this.box[3], y, y + h);
    this.show();
  }

  /** Make what the chosen node depends on, and what depends on it, stand out. */
  mark() {
    const { edges } = this.meta;
    const k = this.chosen;
    const before = k < 0 ? null : reach(edges, k, false).add(k);
    const after = k < 0 ? null : reach(edges, k, true).add(k);
    this.nodes.forEach((node, n) => {
      node.classList.toggle("nki-pale", k >= 0 && !before.has(n) && !after.has(n));
      node.classList.toggle("nki-chosen", n === k);
    });
    this.edges.forEach((path, n) => {
      const { from, to } = edges[n];
      path.classList.toggle("nki-pale", k >= 0 && !(before.has(from) && before.has(to)) && !(after.has(from) && after.has(to)));
      path.classList.toggle("nki-chosen", k >= 0 && (from === k || to === k));
    });
  }

  tell() {
    const node = this.meta.nodes[this.chosen];
    if (!node) {
      fill(this.below, make("span", { class: "nki-faint" }, "Choose a node to see its instruction and its line."));
      return;
    }
    const { edges, nodes } = this.meta;
    const { open } = this.context;
    const names = (list, end) => list.map((edge) => `${nodes[edge[end]].name} (${edge.names.join(", ")})`).join(", ") || "nothing";
    const position = node.operations[0];
    fill(this.below,
      make("p", { class: "nki-use" }, make("code", {}, node.text || `%${node.name}`), node.count > 1 ? make("span", { class: "nki-faint" }, `and ${number(node.count - 1)} more`) : null,
        position !== undefined && open.ir ? button("Show in IR", "Show this instruction in the program's text", () => open.ir({ position })) : null,
        open.layout ? button("Show elements", "Show the elements in the layout view", () => open.layout(position === undefined ? { tensor: node.tensor } : { position })) : null),
      node.place ? make("p", {}, sourceLine(node.place, node.source)) : null,
      make("p", { class: "nki-faint" }, `values from ${names(edges.filter((e) => e.to === this.chosen), "from")}; to ${names(edges.filter((e) => e.from === this.chosen), "to")}`));
  }

  refresh() {
    this.draw();
  }

  close() {}
}

/** Show the data flow in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("graph");
  return new Graph(panel, context, meta);
}
