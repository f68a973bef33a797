// Shows the part of a tensor that each instruction touches, and its values.  Partitions or rows down, elements across.

import { Accesses, address } from "./access.js";
import { boxParts, slicesAt } from "./boxes.js";
import { Canvas, navigate, fit } from "../../widgets/static/canvas.js";
import { button, choice, fill, make, notice, sourceLine } from "../../widgets/static/elements.js";
import { unravel, windowOf } from "../../widgets/static/heat.js";
import { LongList } from "../../widgets/static/list.js";
import { binaryTicks, placeLabels, Range } from "../../widgets/static/range.js";
import { showLegend, valuesOf, whileRunning } from "../../widgets/static/values.js";
import { bytes, number } from "../../widgets/static/words.js";

const LEFT = 62;
const TOP = 34;
const BOTTOM = 22; // for the scale in bytes
const FEW = 6;
const ROW_PX = 7; // partitions are told apart where they are as high as this
const LATE_MS = 400;
// HBM tensors of more rows are shown by their last two axes, with fields for the index of the others.
const ROWS_WHOLE = 512;
const SPACES = { shared_hbm: "HBM", private_hbm: "HBM (private)", sbuf: "SBUF", psum: "PSUM" };

class Layout {
  constructor(panel, context, tensors, first, more) {
    Object.assign(this, { panel, context, theme: context.theme, tensors, chosen: -1, hovered: [], what: "slices", rows: [0, 1] });
    this.range = new Range(0, 1, 1);
    this.canvas = new Canvas((pen, width, height) => this.paint(pen, width, height), "Layout of a tensor");
    this.facts = make("div", { class: "nki-facts" });
    this.list = new LongList({ row: (k) => this.row(k), height: 20, label: "Slices", onChoose: (k) => this.choose(k), first: FEW });
    this.detail = make("div", { class: "nki-detail" });
    this.fields = make("span", { class: "nki-fields" });
    this.legend = make("div", { class: "nki-legend" });
    this.accesses = new Accesses(context);
    this.select = make("span", {});
    const groups = Object.entries(SPACES).map(([memory, title]) => [title,
      tensors.flatMap((t, k) => (t.memory === memory ? [[k, `${t.name}  ${t.shape}  ${t.dtype}`]] : []))]);
    fill(panel,
      make("div", { class: "nki-bar" },
        this.select,
        choice("show", [["slices", "slices"], ["values", "values"]], "slices", (value) => { this.what = value; this.showValues(); }),
        this.fields,
        more > 0 ? make("span", { class: "nki-faint" }, `the first ${number(tensors.length)} of ${number(tensors.length + more)}`) : null),
      this.facts, this.canvas.box, this.legend,
      make("p", { class: "nki-help" }, "Each colour is a slice that instructions read or write. Slices and the scale above count elements, the scale below bytes. Wheel zooms across, drag moves."),
      this.list.element, this.detail, this.accesses.element);
    this.listTensors = (k) => fill(this.select,
      choice("tensor", groups.filter(([, entries]) => entries.length), k, (value) => this.show(Number(value))));
    this.listTensors(first);
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
      this.values = null;
      this.range.first = 0;
      this.range.last = meta.row_bytes;
      this.range.least = Math.min(meta.row_bytes, 8 * meta.itemsize);
      const whole = meta.on_chip || meta.rows <= ROWS_WHOLE;
      this.indices = meta.outer.map(() => (whole ? null : 0));
      this.listFields();
      this.canvas.showTip(null);
      this.describe();
      this.list.setCount(meta.slices.length);
      this.place();
      this.showValues();
      this.choose(meta.slices.length === 1 ? 0 : -1);
    } catch (problem) {
      if (this.wanted === k) fill(this.facts, notice(problem.message, "error"));
    } finally {
      clearTimeout(late);
    }
  }

  /** Make a field for the index of each outer axis. */
  listFields() {
    fill(this.fields, this.tensor.outer.map(({ axis, size }, k) => {
      const field = make("input", { type: "number", min: "0", max: String(size - 1), placeholder: "all",
        "aria-label": `index of axis ${axis}, 0 to ${size - 1}; empty: all`, onkeydown: (event) => event.stopPropagation(),
        oninput: () => {
          const value = field.value === "" ? null : Number(field.value);
          if (value !== null && !(Number.isInteger(value) && value >= 0 && value < size)) return;
          this.indices[k] = value;
          this.place();
        } });
      if (this.indices[k] !== null) field.value = String(this.indices[k]);
      return make("label", { class: "nki-choice", title: "empty: all of it" }, `axis ${axis}`, field);
    }));
  }

  /** Show the part of the tensor that the indices of outer axes leave. */
  place() {
    const { outer, rows, row_bytes: row } = this.tensor;
    const along = outer[0]?.of === "rows";
    const [first, count] = windowOf(outer, this.indices, along ? rows : row);
    this.rows = along ? [first, first + count] : [0, rows];
    if (along || count === row) this.range.reset();
    else this.range.set(first, first + count);
    const shown = this.rows[1] - this.rows[0];
    this.canvas.setHeight(TOP + BOTTOM + (shown === 1 ? 44 : Math.min(256, Math.max(96, shown * 2))));
    this.canvas.ask();
  }

  /** Fetch and show the values on demand. */
  async showValues() {
    const k = this.wanted;
    fill(this.legend);
    this.canvas.ask();
    if (this.what !== "values") return;
    try {
      if (!this.values) this.values = await whileRunning(this.legend, valuesOf(this.context, k, ""));
      if (this.wanted !== k || this.what !== "values") return;
      showLegend(this.legend, this.values);
      this.canvas.ask();
    } catch (problem) {
      fill(this.legend, notice(problem.message, "error"));
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
    const down = (this.canvas.height - TOP - BOTTOM) / (this.rows[1] - this.rows[0]);
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
    if (this.what === "values") {
      if (this.values && typeof this.values !== "string") this.paintValues(pen, width, height);
      pen.restore();
      this.frame(pen, width, height);
      return;
    }
    pen.translate(LEFT - this.range.lo * across, TOP - this.rows[0] * down);
    const strong = this.chosen >= 0 ? [this.chosen] : this.hovered;
    const marks = [];
    t.slices.forEach((slice, k) => {
      const alpha = strong.length && !strong.includes(k) ? 0.16 : 1; // else as in the list below
      pen.fillStyle = this.theme.series(k);
      for (let box = slice.boxes[0]; box < slice.boxes[1]; box++) {
        boxParts(this.boxes, box, across, down, (x, y, w, h, density) => {
          pen.globalAlpha = alpha * (0.3 + 0.7 * density) * (slice.dynamic ? 0.4 : 1);
          pen.fillRect(x, y, Math.max(w, 0.7), Math.max(h, 0.7));
          marks.push([slice, k, x, y, w, h]);
        });
      }
    });
    pen.strokeStyle = now.ink; // above all slices: those that lie below others are seen by their edges
    for (const [slice, k, x, y, w, h] of marks) {
      pen.globalAlpha = strong.length && !strong.includes(k) ? 0.2 : 0.8;
      pen.lineWidth = strong.includes(k) ? 2 : 0.5;
      pen.setLineDash(slice.dynamic ? [6, 4] : []); // it lies somewhere in here
      if (w > 3 && h > 3) pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
    pen.setLineDash([]);
    if (t.on_chip) this.partitions(pen, across, down);
    for (const [slice, ...box] of marks) this.mark(pen, slice, ...box);
    pen.restore();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    this.frame(pen, width, height);
  }

  /** Draw lines between partitions: a tile is that many rows of memory, each by itself. */
  partitions(pen, across, down) {
    const step = 2 ** Math.max(0, Math.ceil(Math.log2(ROW_PX / down)));
    pen.globalAlpha = 0.55;
    pen.fillStyle = this.theme.now.paper;
    for (let row = step; row < this.tensor.rows; row += step) pen.fillRect(0, Math.round(row * down), this.tensor.row_bytes * across, 1);
  }

  frame(pen, width, height) {
    pen.strokeStyle = this.theme.now.faint;
    pen.lineWidth = 1;
    pen.strokeRect(LEFT - 0.5, TOP - 0.5, width - LEFT - 3, height - TOP - BOTTOM + 1);
  }

  paintValues(pen, width, height) {
    const size = this.tensor.itemsize;
    const window = { row: this.rows[0], rows: this.rows[1] - this.rows[0], column: this.range.lo / size, columns: this.range.span / size };
    this.values.paint(pen, LEFT, TOP, width - LEFT - 4, height - TOP - BOTTOM, window);
    this.values.ring(pen, LEFT, TOP, width - LEFT - 4, height - TOP - BOTTOM, window);
  }

  /** Write a slice's index into it where there is room. */
  mark(pen, slice, k, x, y, w, h) {
    const strong = this.chosen === k || (this.chosen < 0 && this.hovered.includes(k));
    if (w < 60 || h < 13 || (this.chosen >= 0 && !strong)) return;
    const from = Math.max(x, this.range.lo * this.scale.across);
    const text = fit(pen, slice.dynamic ? "somewhere in here" : slice.label, Math.min(w, x + w - from) - 10);
    pen.globalAlpha = 1;
    const filled = !slice.dynamic;
    if (filled) { // lines between partitions leave the text out
      pen.fillStyle = this.theme.series(k);
      pen.fillRect(from + 3, y + h / 2 - 7, pen.measureText(text).width + 4, 14);
    }
    pen.fillStyle = filled ? this.theme.now.onFill : this.theme.now.ink;
    pen.fillText(text, from + 5, y + h / 2);
  }

  axes(pen, width, height, across, down) {
    const { now } = this.theme;
    const t = this.tensor;
    pen.fillStyle = now.ink;
    pen.fillText(fit(pen, t.axes[1], width - LEFT - 4), LEFT, 8);
    const scale = (size, y, unit) => {
      const marks = binaryTicks(this.range.lo / size, this.range.hi / size, width / 90).map((at) => [LEFT + (at * size - this.range.lo) * across, number(at) + unit]);
      marks.forEach(([x]) => pen.fillRect(x, y < TOP ? TOP - 5 : height - BOTTOM, 1, 5));
      for (const [x, text] of placeLabels(marks, width, (text) => pen.measureText(text).width)) pen.fillText(text, x, y);
    };
    scale(t.itemsize, TOP - 9, "");
    pen.fillStyle = now.faint;
    scale(1, height - 8, " B");
    pen.textAlign = "right";
    const origin = t.on_chip && t.address ? t.address[0] : 0;
    const [top, end] = this.rows;
    for (const row of end - top === 1 ? [] : binaryTicks(top, end, Math.max(2, (height - TOP) / 32))) {
      const y = TOP + (row - top) * down;
      if (y > height - BOTTOM) continue;
      pen.fillRect(LEFT - 5, y, 5, 1);
      pen.fillText(number(origin + row - (t.on_chip ? 0 : top)), LEFT - 8, Math.min(y + 1, height - 7));
    }
    pen.textAlign = "left";
    pen.save();
    pen.fillStyle = now.ink;
    pen.translate(8, TOP + (height - TOP - BOTTOM) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    const room = height - TOP - BOTTOM;
    const names = [t.axes[0], t.on_chip ? "partitions" : "rows"];
    if (t.axes[0]) pen.fillText(names.find((name) => pen.measureText(name).width <= room) || "", 0, 0);
    pen.restore();
  }

  hit(x, y) {
    if (!this.tensor || x < LEFT || y < TOP) return { found: [] };
    const { across, down } = this.scale;
    const row = Math.floor(this.rows[0] + (y - TOP) / down);
    const byte = Math.floor(this.range.lo + (x - LEFT) / across);
    if (row < 0 || row >= this.rows[1] || byte < 0 || byte >= this.tensor.row_bytes) return { found: [] };
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
    const column = Math.floor(byte / t.itemsize);
    const index = unravel(t.shape, row * (t.row_bytes / t.itemsize) + column);
    const lines = [`${t.name}[${index.join(", ")}]`, address(t, row, byte)];
    if (this.what === "values") {
      if (this.values && typeof this.values !== "string") lines.push(this.values.text(row, column));
    } else {
      lines.push(...(found.length ? found.slice(0, 4).map((k) => `${t.slices[k].text}: ${uses(t.slices[k])}`) : ["no instruction touches it"]),
        ...(found.length > 4 ? [`and ${found.length - 4} more slices`] : []));
    }
    this.canvas.showTip(lines, x, y);
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
      fill(this.detail, make("span", { class: "nki-faint" }, this.tensor?.slices.length ? "Choose a slice to see the instructions that read and write it." : ""));
      return;
    }
    const rest = slice.reads + slice.writes - slice.uses.length;
    fill(this.detail, ...slice.uses.map((use) => make("p", { class: "nki-use" },
      make("span", { class: "nki-engine" }, `${use.way} `, make("span", { class: "nki-chip", style: { background: this.theme.engine(use.engine) } }), this.theme.engineLabel(use.engine)),
      make("code", {}, use.text), button("Elements", "Show which elements each operand of this instruction touches", () => this.accesses.show(use.position)),
      sourceLine(use.place, use.source))),
    ...(rest > 0 ? [make("p", { class: "nki-faint" }, `and ${number(rest)} more instructions`)] : []));
  }

  /** Show the operands of an instruction, and the tensor of the first. */
  async reveal({ position, tensor }) {
    if (tensor !== undefined && tensor < this.tensors.length) {
      this.listTensors(tensor);
      await this.show(tensor);
    }
    if (position === undefined) return;
    await this.accesses.show(position);
    this.accesses.element.scrollIntoView({ block: "nearest" });
  }

  refresh() {
    if (this.what === "values" && this.values) showLegend(this.legend, this.values);
    this.accesses.refresh();
    this.canvas.resize();
    this.canvas.ask();
    this.list.renew();
  }

  close() {
    this.canvas.close();
    this.list.close();
    this.accesses.close();
  }
}

function uses({ reads, writes }) {
  const parts = [];
  if (writes) parts.push(`written by ${number(writes)}`);
  if (reads) parts.push(`read by ${number(reads)}`);
  return parts.join(", ") || "not touched";
}

/** Show the layout of tensors in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("layout");
  if (!meta.tensors.length) {
    fill(panel, notice("The tensors of this run are not known."));
    return { refresh() {}, close() {} };
  }
  const view = new Layout(panel, context, meta.tensors, meta.first, meta.more);
  view.show(meta.first);
  return view;
}
