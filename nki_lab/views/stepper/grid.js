// Shows the values of an operand: a table of a few, a picture of many.

import { fill, make } from "../../widgets/static/elements.js";
import { heatColour, valueText } from "../../widgets/static/heat.js";
import { number } from "../../widgets/static/words.js";

const NAN = 1;
const INFINITE = 2;
const UNWRITTEN = 4;
const HEIGHT = 132;
const LEVELS = 32767; // of a picture, stands for 0

/** Return how a value of a table is written; `mark` tells what is not a number. */
export function cellText(value, mark) {
  if (mark & UNWRITTEN) return "·";
  if (mark & NAN) return "NaN";
  if (mark & INFINITE) return value < 0 ? "−Inf" : "Inf";
  return valueText(value);
}

/** Return [first, end) of block `k` of `count` things in `blocks` blocks. */
export function blockOf(k, count, blocks) {
  return [Math.floor((k * count) / blocks), Math.floor(((k + 1) * count) / blocks)];
}

/** Return the facts about values in one line. */
export function factsOf(values) {
  const bad = [[values.nan, "NaN"], [values.infinite, "Inf"]].filter(([n]) => n).map(([n, what]) => `${number(n)} ${what}`);
  const range = values.least === null ? "no finite value" : `${valueText(values.least)} to ${valueText(values.most)}`;
  return [range, [bad.join(", ") || "no NaN, no Inf", ...(values.unwritten ? [`${number(values.unwritten)} not written yet`] : [])].join(", ")];
}

/** Values of one operand at one moment; `look(row, column)` fetches what a picture has no room for. */
export class Grid {
  constructor(values, arrays, theme, label, look) {
    Object.assign(this, { values, theme, label, look, cells: arrays[`${values.key}.cells`], marks: arrays[`${values.key}.marks`] });
    this.most = values.picture ? values.scale : Math.max(Math.abs(values.least || 0), Math.abs(values.most || 0)) || 1;
    this.window = make("div", { class: "nki-window" });
    this.body = values.picture ? this.picture() : this.table();
    this.element = make("div", { class: "nki-grid" }, this.body, this.window);
  }

  table() {
    const { rows, columns } = this.values;
    return cellTable(this.cells, this.marks, rows, columns, 0, 0, this.label, (value, mark) => this.colour(value, mark));
  }

  colour(value, mark) {
    const { now } = this.theme;
    if (mark & UNWRITTEN) return "transparent";
    if (mark & NAN) return now.limit;
    if (mark & INFINITE) return now.ink;
    return `rgb(${heatColour(now.heat, value / this.most).join(", ")})`;
  }

  picture() {
    const [down, across] = this.values.picture;
    this.canvas = make("canvas", {
      width: across, height: down, class: "nki-heat-map", role: "img", tabindex: "0",
      "aria-label": `${this.label}: ${factsOf(this.values).join(", ")}. Enter shows values, arrow keys move.`,
    });
    this.tip = make("div", { class: "nki-faint nki-pointed" }, "point at the picture for a value; click for those around it");
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("click", (event) => this.open(...this.blockAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.draw();
    this.scale = make("div", { class: "nki-key nki-faint" });
    this.legend();
    return make("div", {}, this.canvas, this.scale, this.tip);
  }

  legend() {
    const stops = this.theme.now.heat;
    const bar = make("span", { class: "nki-scale", role: "img", "aria-label": "colours from the lowest over 0 to the highest value",
      style: { background: `linear-gradient(to right, ${stops.map((c, k) => `${c} ${(100 * k) / (stops.length - 1)}%`).join(", ")})` } });
    const end = valueText(Number(this.most.toPrecision(3)));
    fill(this.scale, `−${end}`, bar, end, this.values.picture[0] < this.values.rows || this.values.picture[1] < this.values.columns ? make("span", {}, "means of blocks") : null);
  }

  draw() {
    if (!this.canvas) return;
    const [down, across] = this.values.picture;
    const pen = this.canvas.getContext("2d");
    const image = pen.createImageData(across, down);
    const scale = Array.from({ length: 257 }, (_, k) => heatColour(this.theme.now.heat, (k - 128) / 128));
    const of = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
    const lost = of(this.theme.now.limit);
    const endless = of(this.theme.now.ink);
    for (let k = 0; k < this.cells.length; k++) {
      const mark = this.marks[k];
      const share = this.cells[k] / LEVELS - 1;
      const colour = mark & NAN ? lost : mark & INFINITE ? endless : scale[Math.round(128 + 128 * share)];
      image.data.set([...colour, mark & UNWRITTEN ? 0 : 255], 4 * k);
    }
    pen.putImageData(image, 0, 0);
    const { rows, columns } = this.values;
    const height = Math.min(HEIGHT, Math.max(14, rows * 3));
    this.canvas.style.height = `${height}px`;
    this.canvas.style.width = `${Math.min(300, Math.max(24, columns * 3))}px`;
  }

  blockAt(event) {
    const [down, across] = this.values.picture;
    const box = this.canvas.getBoundingClientRect();
    const at = (share, blocks) => Math.min(blocks - 1, Math.max(0, Math.floor(share * blocks)));
    return [at((event.clientY - box.top) / box.height, down), at((event.clientX - box.left) / box.width, across)];
  }

  point(event) {
    const [row, column] = this.blockAt(event);
    this.tip.textContent = this.blockText(row, column);
  }

  blockText(row, column) {
    const [down, across] = this.values.picture;
    const span = (first, end) => (end - first > 1 ? `${number(first)} to ${number(end - 1)}` : number(first));
    const rows = blockOf(row, this.values.rows, down);
    const columns = blockOf(column, this.values.columns, across);
    const one = rows[1] - rows[0] === 1 && columns[1] - columns[0] === 1;
    const mark = this.marks[row * across + column];
    const value = (this.cells[row * across + column] / LEVELS - 1) * this.most;
    const held = mark & UNWRITTEN ? "not written yet" : mark & NAN ? (one ? "NaN" : "a NaN among them") : mark & INFINITE ? (one ? "Inf" : "an infinity among them") : `${one ? "" : "mean "}about ${valueText(Number(value.toPrecision(4)))}`;
    return `row ${span(...rows)}, column ${span(...columns)}: ${held}`;
  }

  key(event) {
    const [down, across] = this.values.picture;
    const at = this.at || [0, 0];
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Enter: [0, 0] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation(); // else the view steps, or JupyterLab acts
    this.open(Math.min(down - 1, Math.max(0, at[0] + move[0])), Math.min(across - 1, Math.max(0, at[1] + move[1])));
  }

  /** Show the values that a block of the picture stands for. */
  async open(row, column) {
    this.at = [row, column];
    this.tip.textContent = this.blockText(row, column);
    const [down, across] = this.values.picture;
    try {
      const { meta, arrays } = await this.look(blockOf(row, this.values.rows, down)[0], blockOf(column, this.values.columns, across)[0]);
      if (this.at[0] !== row || this.at[1] !== column) return;
      fill(this.window, cellTable(arrays.cells, arrays.marks, meta.rows, meta.columns, meta.row, meta.column, `${this.label}, values from row ${meta.row} and column ${meta.column} on`));
    } catch (problem) {
      fill(this.window, make("span", { class: "nki-faint" }, problem.message));
    }
  }
}

/** Return a table of values with the numbers of its rows and columns. */
function cellTable(cells, marks, rows, columns, row, column, label, colour = null) {
  const range = (count) => Array.from({ length: count }, (_, k) => k);
  const cell = (r, c) => {
    const k = r * columns + c;
    const mark = marks[k];
    const text = cellText(cells[k], mark);
    return make("td", { class: mark & (NAN | INFINITE) ? "nki-bad" : null, style: colour ? { borderLeftColor: colour(cells[k], mark) } : {} }, text);
  };
  return make("table", { class: "nki-cells", "aria-label": label },
    make("thead", {}, make("tr", {}, make("th", {}), range(columns).map((c) => make("th", { scope: "col" }, number(column + c))))),
    make("tbody", {}, range(rows).map((r) => make("tr", {}, make("th", { scope: "row" }, number(row + r)), range(columns).map((c) => cell(r, c))))));
}
