// Draws the elements that each operand of an instruction reads and writes.

import { boxCovers, boxParts } from "./boxes.js";
import { Canvas, navigate, fit } from "../../widgets/static/canvas.js";
import { button, fill, make, notice, sourceLine } from "../../widgets/static/elements.js";
import { unravel, viewIndex } from "../../widgets/static/heat.js";
import { binaryTicks, placeLabels, Range } from "../../widgets/static/range.js";
import { valuesOf } from "../../widgets/static/values.js";
import { number } from "../../widgets/static/words.js";

const LEFT = 58;
const TOP = 18;

/** The drawing of one operand: its tensor with the elements it stands for. */
class Operand {
  constructor(context, operand, boxes, position) {
    Object.assign(this, { context, theme: context.theme, operand, boxes, position, values: null });
    this.rows = this.window();
    this.range = new Range(0, operand.row_bytes, Math.min(operand.row_bytes, 8 * operand.itemsize));
    const axes = operand.axes.map((axis, k) => `axis ${k}: ${axis.size}, stride ${axis.stride}${axis.words ? `, ${axis.words}` : ""}`);
    this.canvas = new Canvas((pen, width, height) => this.paint(pen, width, height),
      `${operand.operand} ${operand.way} ${operand.text}: ${number(operand.elements)} elements. ${axes.join("; ")}`,
      TOP + 6 + Math.min(this.everything ? 48 : 150, Math.max(24, (this.rows[1] - this.rows[0]) * 2)));
    navigate(this.canvas, this.range, () => [LEFT, this.canvas.width - LEFT - 4], {
      changed: () => this.canvas.ask(), hover: (x, y) => this.hover(x, y), leave: () => this.canvas.showTip(null), click: () => {},
    });
    this.facts = make("div", { class: "nki-pattern" });
    this.element = make("section", { class: "nki-access", "aria-label": `operand ${operand.operand}` }, this.title(), this.facts, this.canvas.box);
    this.describe(axes);
  }

  /** Whether it stands for all of its tensor: there is little to see. */
  get everything() {
    const { boxes: [from, to], rows, row_bytes: width } = this.operand;
    const [row, count, step, byte, across, every, size] = this.boxes.subarray(from * 7, from * 7 + 7);
    return to === from + 1 && row === 0 && count === rows && step === 1 && byte === 0 && across * size === width && every <= size;
  }

  /** Return the rows that are drawn: all, or those around the ones that are touched. */
  window() {
    const { boxes: [from, to], rows } = this.operand;
    if (rows <= 256) return [0, rows];
    let low = rows;
    let high = 0;
    for (let k = from; k < to; k++) {
      const [row, count, step] = this.boxes.subarray(k * 7, k * 7 + 3);
      low = Math.min(low, row);
      high = Math.max(high, row + (count - 1) * step + 1);
    }
    return low < high ? [Math.max(0, low - 4), Math.min(rows, high + 4)] : [0, 256];
  }

  title() {
    const o = this.operand;
    return make("div", {}, make("strong", {}, o.operand), ` ${o.way} `, make("code", {}, o.text), ` of ${o.name} ${o.tensor_shape.join(" x ")} ${o.tensor_dtype}`);
  }

  describe(axes) {
    const o = this.operand;
    const repeats = o.repeats > 1 ? `, each of ${number(o.elements / o.repeats)} read ${number(o.repeats)} times` : "";
    const gather = o.gather && `${{ scalar: "moved by", vector: "rows chosen by", elements: "elements chosen by" }[o.gather.kind]} ${o.gather.index}, ${number(o.gather.step)} elements a unit`;
    fill(this.facts,
      make("span", {}, `${number(o.elements)} elements from element ${number(o.offset)} on${repeats}`),
      ...axes.map((text) => make("span", { class: "nki-axis" }, text)),
      gather ? make("span", { class: "nki-axis" }, gather) : null,
      o.note ? make("span", { class: "nki-flag" }, `▲ ${o.note}`) : null);
  }

  get scale() {
    return {
      across: (this.canvas.width - LEFT - 4) / this.range.span,
      down: (this.canvas.height - TOP - 6) / (this.rows[1] - this.rows[0]),
    };
  }

  paint(pen, width, height) {
    const { across, down } = this.scale;
    const { now } = this.theme;
    const o = this.operand;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = now.faint;
    const size = o.tensor_itemsize;
    const marks = binaryTicks(this.range.lo / size, this.range.hi / size, width / 110).map((at) => [LEFT + (at * size - this.range.lo) * across, number(at)]);
    marks.forEach(([x]) => pen.fillRect(x, TOP - 4, 1, 4));
    for (const [x, text] of placeLabels(marks, width, (text) => pen.measureText(text).width)) pen.fillText(text, x, TOP - 9);
    const origin = o.on_chip && o.address ? o.address[0] : 0;
    pen.textAlign = "right";
    for (const row of binaryTicks(this.rows[0], this.rows[1], Math.max(1, (height - TOP) / 34))) {
      const y = TOP + (row - this.rows[0]) * down;
      if (y < height - 8) pen.fillText(number(origin + row), LEFT - 6, y + 6);
    }
    pen.textAlign = "left";
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, width - LEFT - 4, height - TOP - 6);
    pen.clip();
    pen.translate(LEFT - this.range.lo * across, TOP - this.rows[0] * down);
    pen.fillStyle = this.theme.series(o.way === "reads" ? 0 : 1);
    for (let k = o.boxes[0]; k < o.boxes[1]; k++) {
      boxParts(this.boxes, k, across, down, (x, y, w, h, density) => {
        pen.globalAlpha = 0.25 + 0.6 * density;
        pen.fillRect(x, y, Math.max(w, 0.8), Math.max(h, 0.8));
      });
    }
    pen.restore();
    pen.strokeStyle = now.faint;
    pen.lineWidth = 1;
    pen.strokeRect(LEFT - 0.5, TOP - 0.5, width - LEFT - 3, height - TOP - 5);
    pen.fillStyle = now.faint;
    const axis = o.on_chip ? "partition" : o.rows > 1 ? "row" : "";
    pen.fillText(fit(pen, axis, LEFT), 0, TOP - 9);
  }

  hover(x, y) {
    const o = this.operand;
    const row = Math.floor(this.rows[0] + (y - TOP) / this.scale.down);
    const byte = Math.floor(this.range.lo + (x - LEFT) / this.scale.across);
    if (x < LEFT || y < TOP || row >= this.rows[1] || byte < 0 || byte >= o.row_bytes) {
      this.canvas.showTip(null);
      return;
    }
    const column = Math.floor(byte / o.tensor_itemsize);
    const element = row * (o.row_bytes / o.tensor_itemsize) + column;
    let covered = false;
    for (let k = o.boxes[0]; k < o.boxes[1] && !covered; k++) covered = boxCovers(this.boxes, k, row, byte);
    const lines = [`${o.name}[${unravel(o.tensor_shape, element).join(", ")}]`, address(o, row, byte)];
    const own = Math.floor((row * o.row_bytes + byte) / o.itemsize);
    const index = covered && !o.gather ? viewIndex(o, own) : null;
    lines.push(covered ? `${o.way}${index ? ` as element [${index.join(", ")}] of the operand` : ""}` : "not touched");
    if (this.values === null) this.ask(x, y);
    else if (typeof this.values === "string") lines.push(`no values: ${this.values}`);
    else lines.push(this.values.text(row, column), this.values.meta.note);
    this.canvas.showTip(lines, x, y);
  }

  /** Fetch the values when somebody first asks for one. */
  ask(x, y) {
    this.values = "running the kernel once more, to know the value";
    const moment = `/${this.position}${this.operand.way === "reads" ? "/before" : ""}`;
    valuesOf(this.context, this.operand.number, moment).then(
      (values) => { this.values = values; if (this.canvas.tip.style.display === "block") this.hover(x, y); },
      (problem) => { this.values = problem.message; });
  }

  close() {
    this.canvas.close();
  }
}

/** Say where a byte lies, on chip with the address it was given. */
export function address(tensor, row, byte) {
  if (!tensor.on_chip) return `byte ${number(row * tensor.row_bytes + byte)} of the tensor`;
  if (!tensor.address) return `partition ${row} of the tile, byte ${number(byte)}`;
  return `partition ${tensor.address[0] + row}, address ${number(tensor.address[1] + byte)}`;
}

/** The operands of one instruction, below each other. */
export class Accesses {
  constructor(context) {
    Object.assign(this, { context, operands: [], position: -1, count: 0 });
    this.input = make("input", { type: "number", min: "0", step: "1", "aria-label": "number of the instruction",
      onchange: () => this.show(Number(this.input.value)), onkeydown: (event) => event.stopPropagation() });
    this.of = make("span", { class: "nki-faint" });
    this.links = make("span", {});
    this.head = make("div", {});
    this.body = make("div", {});
    this.element = make("section", { "aria-label": "Elements of the operands of an instruction" },
      make("h4", {}, "Elements that an instruction touches"),
      make("div", { class: "nki-bar" }, make("label", { class: "nki-choice" }, "instruction", this.input), this.of,
        button("‹", "The instruction before", () => this.show(this.position - 1)),
        button("›", "The next instruction", () => this.show(this.position + 1)), this.links),
      this.head, this.body);
    fill(this.body, notice("Choose an instruction to see the exact elements of each operand."));
  }

  async show(position) {
    if (!Number.isInteger(position) || position < 0 || (this.count && position >= this.count)) {
      this.input.value = String(Math.max(0, this.position));
      return;
    }
    this.position = position;
    this.input.value = String(position);
    try {
      const { meta, arrays } = await this.context.source.get(`access/${position}`);
      if (this.position !== position) return;
      this.fill(meta, arrays.boxes);
    } catch (problem) {
      if (this.position === position) fill(this.body, notice(problem.message, "error"));
    }
  }

  fill(meta, boxes) {
    const { open, theme } = this.context;
    this.count = meta.count;
    this.close();
    this.of.textContent = `of ${number(meta.count)}`;
    fill(this.links, open.ir ? button("Show in IR", "Show this instruction in the program's text", () => open.ir({ position: meta.position })) : null,
      " ", open.stepper ? button("Step here", "Show the values around this instruction in the stepper", () => open.stepper({ position: meta.position })) : null,
      " ", meta.multiplies && open.array ? button("Play on the array", "Watch this product on the multiplier array", () => open.array({ position: meta.position })) : null);
    fill(this.head,
      make("p", { class: "nki-use" }, make("span", { class: "nki-engine" }, make("span", { class: "nki-chip", style: { background: theme.engine(meta.engine) } }), theme.engineLabel(meta.engine)),
        make("code", {}, meta.text)),
      make("p", {}, sourceLine(meta.place, meta.source)));
    this.operands = meta.operands.map((operand) => new Operand(this.context, operand, boxes, meta.position));
    fill(this.body, ...this.operands.map((operand) => operand.element));
    if (!this.operands.length) fill(this.body, notice("This instruction touches no tensor."));
  }

  refresh() {
    for (const operand of this.operands) {
      operand.canvas.resize();
      operand.canvas.ask();
    }
  }

  close() {
    for (const operand of this.operands) operand.close();
    this.operands = [];
  }
}
