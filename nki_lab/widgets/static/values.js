// Shows the values of a tensor: a heat map that fills the drawing, and their distribution.

import { fill, make } from "./elements.js";
import { heatColour, valueText } from "./heat.js";
import { number } from "./words.js";

const NAN = 1;
const INFINITE = 2;
const BAR = 52;
const RINGS = 60;

/** The values of one tensor at one moment. */
export class Values {
  constructor({ meta, arrays }, theme) {
    Object.assign(this, { meta, theme, cells: arrays.cells, marks: arrays.marks, counts: arrays.counts });
    this.lost = [];
    for (let k = 0; k < this.marks.length && this.lost.length < RINGS; k++) if (this.marks[k]) this.lost.push(k);
    this.most = Math.max(Math.abs(meta.least || 0), Math.abs(meta.most || 0)) || 1;
  }

  /** Draw the values onto a rectangle; `window` is {row, rows, column, columns} of the tensor. */
  paint(pen, x, y, width, height, { row, rows, column, columns }) {
    if (!this.image || this.colours !== this.theme.now) this.render();
    const [down, across] = this.meta.picture;
    const sx = across / this.meta.columns;
    const sy = down / this.meta.rows;
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.image, column * sx, row * sy, columns * sx, rows * sy, x, y, width, height);
  }

  /** Draw rings around what is not a number, where there is little of it: a single element is easily overlooked. */
  ring(pen, x, y, width, height, { row, rows, column, columns }) {
    const [down, across] = this.meta.picture;
    pen.strokeStyle = this.theme.now.limit;
    pen.lineWidth = 2;
    for (const k of this.lost) {
      const r = ((Math.floor(k / across) + 0.5) * this.meta.rows) / down;
      const c = (((k % across) + 0.5) * this.meta.columns) / across;
      if (r < row || r > row + rows || c < column || c > column + columns) continue;
      pen.beginPath();
      pen.arc(x + ((c - column) / columns) * width, y + ((r - row) / rows) * height, 6, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  render() {
    const [down, across] = this.meta.picture;
    this.colours = this.theme.now;
    this.image = Object.assign(document.createElement("canvas"), { width: across, height: down });
    const pen = this.image.getContext("2d");
    const image = pen.createImageData(across, down);
    const stops = this.theme.now.heat;
    const scale = new Uint32Array(513);
    const word = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    for (let k = 0; k < scale.length; k++) scale[k] = word(heatColour(stops, (k - 256) / 256));
    const lost = word(hex(this.theme.now.limit));
    const endless = word(hex(this.theme.now.ink));
    const pixels = new Uint32Array(image.data.buffer);
    for (let k = 0; k < pixels.length; k++) {
      const mark = this.marks[k];
      if (mark & NAN) pixels[k] = lost;
      else if (mark & INFINITE) pixels[k] = endless;
      else pixels[k] = scale[Math.round(256 + (256 * this.cells[k]) / this.most)];
    }
    pen.putImageData(image, 0, 0);
  }

  /** Return the value of an element as text, or the mean of the block it is in. */
  text(row, column) {
    const [down, across] = this.meta.picture;
    const k = Math.floor((row * down) / this.meta.rows) * across + Math.floor((column * across) / this.meta.columns);
    const mark = this.marks[k];
    const what = this.meta.exact ? "value" : "mean around here";
    if (mark & NAN) return this.meta.exact ? "value NaN" : "a NaN around here";
    if (mark & INFINITE) return this.meta.exact ? "value infinite" : "an infinity around here";
    return `${what} ${valueText(this.cells[k])}`;
  }

  /** Return a line on the values, a scale of colours and a histogram. */
  legend() {
    const { meta, theme } = this;
    if (meta.least === undefined) return [this.flags(), make("span", {}, "no finite value")];
    const stops = theme.now.heat;
    const low = meta.least < 0 ? 0 : 50;
    const high = meta.most > 0 ? 100 : 50;
    const scale = make("span", { class: "nki-scale", role: "img", "aria-label": "colours from the lowest to the highest value",
      style: { background: `linear-gradient(to right, ${stops.map((c, k) => `${c} ${k * 25}%`).join(", ")})` } });
    const spread = [`−${valueText(this.most)}`, scale, valueText(this.most)];
    return [this.flags(), make("span", {}, `${valueText(meta.least)} to ${valueText(meta.most)}, mean ${valueText(meta.mean)}, deviation ${valueText(meta.deviation)}`),
      make("span", { class: "nki-key", title: `used: ${low} % to ${high} %` }, ...spread), this.histogram()];
  }

  flags() {
    const { nan, inf, zero, count } = this.meta;
    const parts = [];
    if (nan) parts.push(`${number(nan)} NaN`);
    if (inf) parts.push(`${number(inf)} infinite`);
    if (zero) parts.push(`${number(zero)} zero`);
    return make("span", { class: nan || inf ? "nki-flag" : "" }, `${nan || inf ? "▲ " : ""}${number(count)} values${parts.length ? `: ${parts.join(", ")}` : ""}`);
  }

  histogram() {
    const most = Math.max(1, ...this.counts);
    const { edges } = this.meta;
    const bars = [...this.counts].map((count, k) => make("span", {
      style: { height: `${count ? Math.max(1, (BAR * count) / most) : 0}px`, background: this.theme.series(0) },
      title: `${valueText(edges[k])} to ${valueText(edges[k + 1])}: ${number(count)}`,
    }));
    const peak = this.counts.indexOf(most);
    return make("span", { class: "nki-histogram", role: "img",
      "aria-label": `histogram of the values, the most (${number(most)}) from ${valueText(edges[peak] || 0)} to ${valueText(edges[peak + 1] || 0)}` }, bars);
  }
}

function hex(colour) {
  return [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
}

/** A run keeps what goes in and comes out; the first look at anything between takes the kernel's time once more. */
export const RERUN = "Running the kernel once more, on copies of its arguments, to know what its tiles hold…";
/** A run that takes longer than this is not waited for. */
export const RERUN_MS = 120000;
const SOON_MS = 200;

/** Say in `element` that the kernel runs once more, if `promise` takes its time; returns the promise. */
export function whileRunning(element, promise) {
  const late = setTimeout(() => fill(element, make("p", { class: "nki-notice", role: "status" }, RERUN)), SOON_MS);
  return promise.finally(() => clearTimeout(late));
}

/** Ask for the values of a tensor; `moment` is "", or "/5" or "/5/before"; gives a Values, or a text that says why not. */
export async function valuesOf(context, tensor, moment) {
  const part = await context.source.get(`values/${tensor}${moment}`, RERUN_MS);
  return part.meta.known ? new Values(part, context.theme) : part.meta.note;
}

/** Put facts about the values into an element. */
export function showLegend(element, values) {
  if (typeof values === "string") fill(element, make("span", { class: "nki-faint" }, `No values: ${values}.`));
  else fill(element, values.legend(), make("span", { class: "nki-faint" }, values.meta.note));
}
