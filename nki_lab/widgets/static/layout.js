// Which part of a tensor does each instruction touch?  Partitions down, bytes across.

import { boxParts, slicesAt } from "./boxes.js";
import { Canvas, navigate } from "./canvas.js";
import { choice, fill, make, notice, sourceLine } from "./elements.js";
import { LongList } from "./list.js";
import { binaryTicks, Range } from "./range.js";
import { fit } from "./timeline_draw.js";
import { bytes, number } from "./words.js";

const LEFT = 62;
const TOP = 34;
const BOTTOM = 6;
const LATE_MS = 400;
const SPACES = { shared_hbm: "HBM", private_hbm: "HBM (private)", sbuf: "SBUF", psum: "PSUM" };

class Layout {
  constructor(panel, context, tensors, first, more) {
    Object.assign(this, { panel, context, theme: context.theme, tensors, chosen: -1, hovered: [] });
    this.range = new Range(0, 1, 1);
    this.canvas = new Canvas((pen, width, height) => this.paint(pen, width, height), "Layout of a tensor");
    this.facts = make("div", { class: "nki-facts" });
    this.list = new LongList({ row: (k) => this.row(k), height: 20, label: "Slices", onChoose: (k) => this.choose(k) });
    this.detail = make("div", { class: "nki-detail" });
    const groups = Object.entries(SPACES).map(([memory, title]) => [title,
      tensors.flatMap((t, k) => (t.memory === memory ? [[k, `${t.name}  ${t.shape}  ${t.dtype}`]] : []))]);
    fill(panel,
      make("div", { class: "nki-bar" },
        choice("tensor", groups.filter(([, entries]) => entries.length), first, (value) => this.show(Number(value))),
        more > 0 ? make("span", { class: "nki-faint" }, `the first ${number(tensors.length)} of ${number(tensors.length + more)}`) : null),
      this.facts, this.canvas.box,
      make("p", { class: "nki-help" }, "Each colour is a slice that instructions read or write. Wheel zooms across, drag moves."),
      this.list.element, this.detail);
    navigate(this.canvas, this.range, () => [LEFT, this.canvas.width - LEFT - 4], {
      changed: () => this.canvas.ask(),
      hover: (x, y) => this.hover(x, y),
      leave: () => { this.hovered = []; this.canvas.showTip(null); this.canvas.ask(); },
      click: (x, y) => { const [k] = this.hit(x, y).found; if (k !== undefined) this.list.choose(k); else this.choose(-1); },
      keys: { Escape: () => this.choose(-1) },
    });
  }

  async show(k) {
    // A kernel that runs a cell answers when it has time; until then the old picture must not seem to be this tensor.
    this.wanted = k;
    const late = setTimeout(() => {
      if (this.wanted !== k) return;
      this.tensor = null;
      fill(this.facts, notice(`Waiting for the kernel, which is busy, to say where ${this.tensors[k].name} is.`));
      this.list.setCount(0);
      fill(this.detail);
      this.canvas.ask();
    }, LATE_MS);
    try {
      const { meta, arrays } = await this.context.source.get(`layout/${k}`);
      if (this.wanted !== k) return;
      Object.assign(this, { tensor: meta, boxes: arrays.boxes, chosen: -1, hovered: [] });
      this.range.first = 0;
      this.range.last = meta.row_bytes;
      this.range.least = Math.min(meta.row_bytes, 8 * meta.itemsize);
      this.range.reset();
      this.canvas.showTip(null);
      this.describe();
      this.list.setCount(meta.slices.length);
      const lines = Math.min(6, Math.max(2, meta.slices.length));
      this.list.element.style.height = `${lines * 20 + 2}px`;
      this.canvas.setHeight(TOP + BOTTOM + (meta.rows === 1 ? 44 : Math.min(256, Math.max(96, meta.rows * 2))));
      this.canvas.ask();
      this.choose(meta.slices.length === 1 ? 0 : -1);
    } catch (problem) {
      if (this.wanted === k) fill(this.facts, notice(problem.message, "error"));
    } finally {
      clearTimeout(late);
    }
  }

  describe() {
    const t = this.tensor;
    const where = t.address && t.on_chip
      ? `partitions ${t.address[0]} to ${t.address[0] + t.rows - 1}, bytes ${number(t.address[1])} to ${number(t.address[1] + t.row_bytes - 1)} of each`
      : `${bytes(t.nbytes)} in all`;
    const more = t.more ? `; ${number(t.more)} more slices are not drawn` : "";
    fill(this.facts,
      make("p", {}, make("strong", {}, t.name), ` ${t.shape.join(" x ")} ${t.dtype} in ${SPACES[t.memory]} (${t.origin}): ${where}; `,
        `${number(t.slices.length)} ${t.slices.length === 1 ? "slice" : "different slices"} touched${more}`),
      t.place ? make("p", {}, sourceLine(t.place, t.source)) : null);
    this.canvas.element.setAttribute("aria-label",
      `${t.name}, ${t.shape.join(" x ")} ${t.dtype}: ${t.axes.filter(Boolean).join("; ")}. ${t.slices.length} slices, listed below.`);
  }

  get scale() {
    const across = (this.canvas.width - LEFT - 4) / this.range.span;
    const down = (this.canvas.height - TOP - BOTTOM) / this.tensor.rows;
    return { across, down };
  }

  paint(pen, width, height) {
    if (!this.tensor) return;
    const { across, down } = this.scale;
    const { now } = this.theme;
    const t = this.tensor;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.axes(pen, width, height, across, down);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, width - LEFT - 4, height - TOP - BOTTOM);
    pen.clip();
    pen.translate(LEFT - this.range.lo * across, TOP);
    const strong = this.chosen >= 0 ? [this.chosen] : this.hovered;
    t.slices.forEach((slice, k) => {
      const alpha = strong.includes(k) ? 0.95 : strong.length ? 0.16 : 0.6;
      pen.fillStyle = this.theme.series(k);
      pen.strokeStyle = now.ink;
      pen.lineWidth = strong.includes(k) ? 2 : 0.5;
      pen.setLineDash(slice.dynamic ? [6, 4] : []); // it lies somewhere in here
      for (let box = slice.boxes[0]; box < slice.boxes[1]; box++) {
        boxParts(this.boxes, box, across, down, (x, y, w, h, density) => {
          pen.globalAlpha = alpha * (0.3 + 0.7 * density) * (slice.dynamic ? 0.4 : 1);
          pen.fillRect(x, y, Math.max(w, 0.7), Math.max(h, 0.7));
          pen.globalAlpha = strong.length && !strong.includes(k) ? 0.2 : 0.8;
          if (w > 3 && h > 3) pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
          this.mark(pen, slice, k, x, y, w, h);
        });
      }
    });
    pen.restore();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    pen.strokeStyle = now.faint;
    pen.lineWidth = 1;
    pen.strokeRect(LEFT - 0.5, TOP - 0.5, width - LEFT - 3, height - TOP - BOTTOM + 1);
  }

  /** Write a slice's index into it where there is room. */
  mark(pen, slice, k, x, y, w, h) {
    const strong = this.chosen === k || (this.chosen < 0 && this.hovered.includes(k));
    if (w < 60 || h < 13 || (this.chosen >= 0 && !strong)) return;
    const from = Math.max(x, this.range.lo * this.scale.across);
    pen.globalAlpha = 1;
    pen.fillStyle = strong ? this.theme.now.onFill : this.theme.now.ink;
    pen.fillText(fit(pen, slice.dynamic ? "somewhere in here" : indexOf(slice.text) || "all of it", Math.min(w, x + w - from) - 10), from + 5, y + h / 2);
    pen.fillStyle = this.theme.series(k);
  }

  axes(pen, width, height, across, down) {
    const { now } = this.theme;
    const t = this.tensor;
    pen.fillStyle = now.ink;
    pen.fillText(fit(pen, t.axes[1], width - LEFT - 4), LEFT, 8);
    pen.fillStyle = now.faint;
    let free = -Infinity;
    for (const byte of binaryTicks(this.range.lo, this.range.hi, width / 90)) {
      const x = LEFT + (byte - this.range.lo) * across;
      const text = number(byte);
      if (x < free || x + pen.measureText(text).width > width) continue;
      pen.fillRect(x, TOP - 5, 1, 5);
      pen.fillText(text, x + 3, TOP - 9);
      free = x + pen.measureText(text).width + 10;
    }
    pen.textAlign = "right";
    const origin = t.on_chip && t.address ? t.address[0] : 0;
    for (const row of t.rows === 1 ? [] : binaryTicks(0, t.rows, Math.max(2, (height - TOP) / 32))) {
      const y = TOP + row * down;
      if (y > height - BOTTOM) continue;
      pen.fillRect(LEFT - 5, y, 5, 1);
      pen.fillText(number(origin + row), LEFT - 8, Math.min(y + 1, height - 7));
    }
    pen.textAlign = "left";
    pen.save();
    pen.fillStyle = now.ink;
    pen.translate(8, TOP + (height - TOP - BOTTOM) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    const room = height - TOP - BOTTOM;
    const names = [t.axes[0], t.on_chip ? "partitions" : "axis 0"];
    if (t.axes[0]) pen.fillText(names.find((name) => pen.measureText(name).width <= room) || "", 0, 0);
    pen.restore();
  }

  hit(x, y) {
    if (!this.tensor || x < LEFT || y < TOP) return { found: [] };
    const { across, down } = this.scale;
    const row = Math.floor((y - TOP) / down);
    const byte = Math.floor(this.range.lo + (x - LEFT) / across);
    if (row < 0 || row >= this.tensor.rows || byte < 0 || byte >= this.tensor.row_bytes) return { found: [] };
    return { row, byte, found: slicesAt(this.tensor.slices, this.boxes, row, byte) };
  }

  hover(x, y) {
    const { row, byte, found } = this.hit(x, y);
    this.hovered = found;
    this.canvas.ask();
    if (row === undefined) {
      this.canvas.showTip(null);
      return;
    }
    const t = this.tensor;
    const place = t.on_chip ? `partition ${(t.address ? t.address[0] : 0) + row}` : `row ${number(row)}`;
    const element = Math.floor(byte / t.itemsize);
    const address = t.on_chip && t.address ? `, address ${number(t.address[1] + byte)}` : "";
    const shown = found.slice(0, 4).map((k) => `${t.slices[k].text}: ${uses(t.slices[k])}`);
    this.canvas.showTip([
      `${place}, element ${number(element)} (byte ${number(byte)}${address})`,
      ...(found.length ? shown : ["no instruction touches it"]),
      ...(found.length > 4 ? [`and ${found.length - 4} more slices`] : []),
    ], x, y);
  }

  row(k) {
    const slice = this.tensor.slices[k];
    const row = make("div", { title: slice.text },
      make("span", { class: "nki-chip", style: { background: this.theme.series(k) } }),
      make("code", {}, slice.text),
      make("span", { class: "nki-faint" }, `${slice.dynamic ? "at an address known when it runs" : slice.shape.join(" x ")}, ${uses(slice)}`));
    row.addEventListener("mouseenter", () => { this.hovered = [k]; this.canvas.ask(); });
    row.addEventListener("mouseleave", () => { this.hovered = []; this.canvas.ask(); });
    return row;
  }

  choose(k) {
    this.chosen = k;
    this.canvas.ask();
    const slice = this.tensor?.slices[k];
    if (!slice) {
      fill(this.detail);
      return;
    }
    const rest = slice.reads + slice.writes - slice.uses.length;
    fill(this.detail, ...slice.uses.map((use) => make("p", { class: "nki-use" },
      make("span", { class: "nki-engine" }, `${use.way} `, make("span", { class: "nki-chip", style: { background: this.theme.engine(use.engine) } }), this.theme.engineLabel(use.engine)),
      make("code", {}, use.text), sourceLine(use.place, use.source))),
    ...(rest > 0 ? [make("p", { class: "nki-faint" }, `and ${number(rest)} more instructions`)] : []));
  }

  refresh() {
    this.canvas.resize();
    this.canvas.ask();
    this.list.renew();
  }

  close() {
    this.canvas.close();
    this.list.close();
  }
}

function indexOf(text) {
  const at = text.indexOf("[");
  return at < 0 ? "" : text.slice(at);
}

function uses({ reads, writes }) {
  const parts = [];
  if (writes) parts.push(`written by ${number(writes)}`);
  if (reads) parts.push(`read by ${number(reads)}`);
  return parts.join(", ") || "not touched";
}

/** Show the layout of tensors in `panel`; returns the view. */
export async function mountLayout(panel, context) {
  const { meta } = await context.source.get("layout");
  if (!meta.tensors.length) {
    fill(panel, notice("The tensors of this run are not known."));
    return { refresh() {}, close() {} };
  }
  const view = new Layout(panel, context, meta.tensors, meta.first, meta.more);
  view.show(meta.first);
  return view;
}
