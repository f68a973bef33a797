// Shows how the Tensor engine multiplies: weights are loaded, rows stream through, sums arrive in PSUM.

import { Steps } from "./steps.js";
import { Canvas, FONT, wrap } from "../../widgets/static/canvas.js";
import { button, choice, fill, make, notice, sourceLine } from "../../widgets/static/elements.js";
import { heatColour, valueText } from "../../widgets/static/heat.js";
import { RERUN_MS, whileRunning } from "../../widgets/static/values.js";
import { number, percent } from "../../widgets/static/words.js";

const GAP = 46;
const LINE = 14;
const LEFT = 30;
const SIDE = 180;
const WORDS = 190; // room for the words right of the array
const SPEEDS = [["0.25", "slow"], ["1", "1 step a frame"], ["4", "4 steps"], ["16", "16 steps"]];
const PHASES = {
  load: "stationary is loaded into the array", stream: "columns of moving stream through",
  drain: "the last columns run through", end: "every sum is in PSUM",
};

class MultiplierArray {
  constructor(panel, context, meta) {
    Object.assign(this, { panel, context, theme: context.theme, list: meta.products, rows: meta.rows, columns: meta.columns, t: 0, speed: 1 });
    this.canvas = new Canvas((pen, width, height) => this.paint(pen, width, height), "Multiplier array", 430);
    this.canvas.element.addEventListener("keydown", (event) => this.key(event));
    this.canvas.element.addEventListener("pointermove", (event) => this.hover(event.offsetX, event.offsetY));
    this.canvas.element.addEventListener("pointerleave", () => this.canvas.showTip(null));
    this.slider = make("input", { type: "range", min: "0", step: "1", class: "nki-slider", "aria-label": "step of the product",
      oninput: () => { this.pause(); this.fresh = false; this.go(Number(this.slider.value)); } });
    this.player = button("Play", "Play or pause (space)", () => this.toggle());
    this.status = make("p", { class: "nki-status", "aria-live": "off" });
    this.facts = make("div", {});
    this.select = make("span", {});
    fill(panel,
      make("div", { class: "nki-bar" }, this.select,
        meta.more ? make("span", { class: "nki-faint" }, `the first ${number(meta.products.length)} of ${number(meta.products.length + meta.more)}`) : null),
      this.facts,
      make("div", { class: "nki-bar" }, this.player,
        button("‹", "One step back (left arrow)", () => this.step(-1)), button("›", "One step on (right arrow)", () => this.step(1)),
        choice("speed", SPEEDS, "1", (value) => { this.speed = Number(value); }), this.slider),
      this.status, this.canvas.box,
      make("p", { class: "nki-help" }, "Blue is below zero, orange above; the slanted lines are columns of moving on their way through the array. Space plays, arrows step (with shift 16 steps), Home and End, [ and ] go to other products. ",
        "Sizes and values are those of the instruction; the order, one row and one column of the array a step, is that of a systolic array and no measured time."));
  }

  async show(k) {
    if (k < 0 || k >= this.list.length) return;
    this.pause();
    this.shown = k;
    fill(this.select, choice("product", this.list.map((p, n) => [n, `${p.position}: ${p.text}`.slice(0, 120)]), k, (value) => this.show(Number(value))));
    try {
      const { meta, arrays } = await whileRunning(this.facts, this.context.source.get(`array/${this.list[k].position}`, RERUN_MS));
      if (this.shown !== k) return;
      if (meta.problem) throw new Error(meta.problem);
      Object.assign(this, { meta, arrays, pictures: null });
      this.steps = new Steps(meta.sizes, meta.loads);
      this.slider.max = String(this.steps.last);
      this.describe();
      // A picture of the middle tells most; playing begins at the start.
      this.fresh = true;
      this.go(Math.floor(this.steps.load + (this.steps.last - this.steps.load) / 2));
    } catch (problem) {
      fill(this.facts, notice(problem.message, "error"));
    }
  }

  describe() {
    const { meta } = this;
    const [k, m, n] = meta.sizes;
    const { open } = this.context;
    const o = meta.operands;
    const used = Math.min(1, (k * m) / (meta.rows * meta.columns));
    fill(this.facts,
      make("p", { class: "nki-use" }, make("code", {}, meta.text), open.ir ? button("Show in IR", "Show this instruction in the program's text", () => open.ir({ position: meta.position })) : null,
        open.layout ? button("Elements", "Show which elements each operand touches", () => open.layout({ position: meta.position })) : null,
        sourceLine(meta.place, meta.source)),
      make("p", {}, `K = ${k} partitions are summed over, M = ${m}, N = ${n}; `,
        `${percent(used)} of ${meta.rows} x ${meta.columns} multipliers are used. `,
        meta.adds ? "The sums are added to what dst holds. " : "", meta.times ? `${meta.modelled ? "Modelled" : "Measured"}: ${meta.times}. ` : "",
        make("span", { class: "nki-faint" }, this.arrays.stationary ? `Values ${meta.note}.` : `No values: ${meta.note}.`)));
    this.canvas.element.setAttribute("aria-label",
      `Product of stationary ${o.stationary.text} [${k}, ${m}] and moving ${o.moving.text} [${k}, ${n}] on the multiplier array, into ${o.dst.text} [${m}, ${n}]. Space plays, arrow keys step.`);
  }

  // -- time ---------------------------------------------------------------------------------------------------------

  go(t) {
    this.t = Math.min(this.steps.last, Math.max(0, t));
    const step = Math.floor(this.t);
    this.slider.value = String(step);
    const { k, m, n } = this.steps;
    const phase = this.steps.phase(step);
    this.status.textContent = `step ${number(step)} of ${number(this.steps.last)}: ${PHASES[phase]}; ` +
      (phase === "load" ? `${number(this.steps.loaded(step))} of ${number(m)} columns are in place` :
        `${number(this.steps.busy(step))} of ${number(k * m)} multipliers work; ${number(this.steps.finished(step))} of ${number(m * n)} sums are complete`);
    this.canvas.ask();
  }

  step(by) {
    this.pause();
    this.status.setAttribute("aria-live", "polite");
    this.fresh = false;
    if (this.steps) this.go(Math.floor(this.t) + by);
  }

  toggle() {
    if (this.frame) this.pause();
    else if (this.steps) this.play();
  }

  play() {
    if (this.t >= this.steps.last || this.fresh) this.t = 0;
    this.fresh = false;
    this.player.textContent = "Pause";
    this.status.setAttribute("aria-live", "off");
    const next = () => {
      this.frame = requestAnimationFrame(() => {
        this.go(this.t + this.speed);
        if (this.t >= this.steps.last) this.pause();
        else next();
      });
    };
    next();
  }

  pause() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.player.textContent = "Play";
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.steps) return;
    const by = event.shiftKey ? 16 : 1;
    const act = {
      " ": () => this.toggle(), ArrowRight: () => this.step(by), ArrowLeft: () => this.step(-by), Home: () => this.step(-Infinity),
      End: () => this.step(Infinity), "[": () => this.show(this.shown - 1), "]": () => this.show(this.shown + 1),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  /** Return where moving, the array and the results lie. */
  get areas() {
    const { k, m, n } = this.steps;
    const { width: all, pen } = this.canvas;
    const cell = Math.min(Math.min(SIDE, all * 0.28) / Math.max(k, m), 16);
    const side = { w: m * cell, h: k * cell };
    const room = Math.max(60, all - LEFT - side.w - GAP - WORDS);
    const width = Math.min(room, Math.max(n * 0.75, 60), n * cell);
    const x = LEFT + width + GAP;
    const o = this.meta.operands;
    pen.font = FONT;
    const above = {
      moving: wrap(pen, `moving ${o.moving.text}: N = ${n} →`, width + GAP - 8),
      array: wrap(pen, `array, holds stationary ${o.stationary.text}: M = ${m} →`, all - x - 4),
    };
    const top = 6 + LINE * Math.max(above.moving.length, above.array.length);
    const array = { x, y: top, ...side };
    const tall = Math.min(n * cell, Math.max(40, Math.min(n * 0.3, 80)));
    return {
      moving: { x: LEFT, y: top, w: width, h: side.h, down: k, across: n, above: above.moving },
      array: { ...array, down: k, across: m, above: above.array },
      result: { x, y: top + Math.max(side.h, 40) + 26, w: side.w, h: tall, down: n, across: m },
    };
  }

  /** Make pictures of the operands once: a colour per value, or one tone where values are not known. */
  render() {
    const { k, m, n } = this.steps;
    const { stationary, moving, dst } = this.arrays;
    const stops = this.theme.now.heat;
    this.colours = this.theme.now;
    const picture = (down, across, values, index) => {
      const made = Object.assign(document.createElement("canvas"), { width: across, height: down });
      const pen = made.getContext("2d");
      const image = pen.createImageData(across, down);
      let most = 0;
      if (values) for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
      for (let r = 0; r < down; r++) {
        for (let c = 0; c < across; c++) {
          const value = values ? values[index(r, c)] / (most || 1) : 0.45;
          const [red, green, blue] = Number.isFinite(value) ? heatColour(stops, value) : heatColour([this.theme.now.limit, this.theme.now.limit], 0);
          image.data.set([red, green, blue, 255], 4 * (r * across + c));
        }
      }
      pen.putImageData(image, 0, 0);
      return made;
    };
    this.pictures = {
      array: picture(k, m, stationary, (r, c) => r * m + c), moving: picture(k, n, moving, (r, c) => r * n + c),
      result: picture(n, m, dst, (r, c) => c * n + r),
    };
    const wave = Object.assign(document.createElement("canvas"), { width: m, height: k });
    this.wave = { canvas: wave, pen: wave.getContext("2d"), image: wave.getContext("2d").createImageData(m, k) };
  }

  paint(pen) {
    if (!this.steps) return;
    if (!this.pictures || this.colours !== this.theme.now) this.render();
    const { areas, steps, theme: { now } } = this;
    const t = Math.floor(this.t);
    pen.font = FONT;
    pen.textBaseline = "middle";
    pen.imageSmoothingEnabled = false;
    const { moving, array, result } = areas;
    this.canvas.setHeight(Math.max(result.y + result.h, result.y + this.words(pen, result).length * LINE, moving.y + moving.h + 2 * LINE) + 8);
    const cellX = array.w / array.across;
    const cellY = array.h / array.down;
    // What is loaded of stationary stands in the array.
    const loaded = steps.loaded(t);
    if (loaded) pen.drawImage(this.pictures.array, 0, 0, loaded, array.down, array.x, array.y, loaded * cellX, array.h);
    this.waves(pen, array, t);
    // moving: what has entered is pale.
    pen.drawImage(this.pictures.moving, moving.x, moving.y, moving.w, moving.h);
    pen.fillStyle = now.paper;
    pen.globalAlpha = 0.72;
    const step = moving.w / moving.across;
    for (let row = 0; row < moving.down; row++) {
      const entered = Math.min(moving.across, Math.max(0, t - steps.load - row));
      pen.fillRect(moving.x, moving.y + row * cellY, entered * step, cellY);
    }
    pen.globalAlpha = 1;
    // Results: column m of the array is partition m of dst; what is complete is there.
    const line = result.h / result.down;
    for (let m = 0; m < result.across; m++) {
      const done = Math.min(result.down, Math.max(0, t - steps.load - steps.k - m + 1));
      if (done) pen.drawImage(this.pictures.result, m, 0, 1, done, result.x + m * cellX, result.y, cellX, done * line);
    }
    this.frames(pen, areas);
  }

  /** Paint the multipliers that work, every sixteenth column of moving as a dark front. */
  waves(pen, array, t) {
    const { steps, wave, theme: { now } } = this;
    const ink = [1, 3, 5].map((n) => parseInt(now.ink.slice(n, n + 2), 16));
    const { data } = wave.image;
    for (let row = 0; row < steps.k; row++) {
      for (let column = 0; column < steps.m; column++) {
        const n = steps.at(row, column, t);
        const at = 4 * (row * steps.m + column);
        data[at] = ink[0];
        data[at + 1] = ink[1];
        data[at + 2] = ink[2];
        data[at + 3] = n < 0 ? 0 : n % 16 === 0 ? 200 : 46;
      }
    }
    wave.pen.putImageData(wave.image, 0, 0);
    pen.drawImage(wave.canvas, array.x, array.y, array.w, array.h);
  }

  frames(pen, { moving, array, result }) {
    const { theme: { now } } = this;
    const { k } = this.steps;
    pen.strokeStyle = now.faint;
    pen.lineWidth = 1;
    for (const { x, y, w, h } of [moving, array, result]) pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    pen.fillStyle = now.ink;
    const write = (lines, x, y) => lines.forEach((text, row) => pen.fillText(text, x, y + row * LINE));
    for (const area of [moving, array]) write(area.above, area.x, area.y - 11 - LINE * (area.above.length - 1));
    const right = array.x + array.w + 10;
    write([`K = ${k} partitions ↓`, "(summed over)"], right, array.y + 10);
    write(this.words(pen, result), right, result.y + 8);
    pen.fillStyle = now.faint;
    pen.fillText("sums leave at the bottom ↓", array.x, array.y + array.h + 12);
    pen.textAlign = "center";
    pen.fillText("→", moving.x + moving.w + GAP / 2, array.y + array.h / 2);
    pen.textAlign = "left";
    write(wrap(pen, "in SBUF: partitions ↓", moving.w + GAP - 8), moving.x, moving.y + moving.h + 14);
    pen.save();
    pen.translate(12, moving.y + moving.h / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(`K = ${k}`, 0, 0);
    pen.restore();
  }

  /** Return what stands right of the results. */
  words(pen, result) {
    const [, m, n] = this.meta.sizes;
    const room = this.canvas.width - result.x - result.w - 12;
    return ["dst in PSUM", this.meta.operands.dst.text, `M = ${m} partitions →`, `N = ${n} per partition ↓`].flatMap((text) => wrap(pen, text, room));
  }

  hover(x, y) {
    if (!this.steps) return;
    const lines = this.under(x, y);
    this.canvas.showTip(lines, x, y);
  }

  under(x, y) {
    const t = Math.floor(this.t);
    const { stationary, moving, dst } = this.arrays;
    const { k, m, n } = this.steps;
    for (const [name, area] of Object.entries(this.areas)) {
      const row = Math.floor(((y - area.y) / area.h) * area.down);
      const column = Math.floor(((x - area.x) / area.w) * area.across);
      if (row < 0 || column < 0 || row >= area.down || column >= area.across) continue;
      const shown = (values, at) => (values ? ` = ${valueText(values[at])}` : "");
      if (name === "moving") return [`moving[k=${row}, n=${column}]${shown(moving, row * n + column)}`, `enters row ${row} at step ${this.steps.load + column + row + 1}`];
      if (name === "result") {
        const done = this.steps.done(column, row, t);
        return [`dst[m=${column}, n=${row}]${done ? shown(dst, column * n + row) : ""}`, done ? "complete" : `complete at step ${this.steps.load + k + row + column}`];
      }
      const now = this.steps.at(row, column, t);
      const has = column < this.steps.loaded(t);
      return [`multiplier row k=${row}, column m=${column}`, has ? `holds stationary[k=${row}, m=${column}]${shown(stationary, row * m + column)}` : "not loaded yet",
        now < 0 ? "idle" : `times moving[k=${row}, n=${now}]${shown(moving, row * n + now)}`];
    }
    return null;
  }

  /** Show the product of an instruction. */
  reveal({ position }) {
    const k = this.list.findIndex((product) => product.position === position);
    if (k >= 0) return this.show(k);
    return undefined;
  }

  refresh() {
    this.canvas.resize();
    this.canvas.ask();
  }

  close() {
    this.pause();
    this.canvas.close();
  }
}

/** Show the multiplier array in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("array");
  if (!meta.products.length) {
    fill(panel, notice("No instruction of this run multiplies on the Tensor engine's array."));
    return { refresh() {}, close() {} };
  }
  const view = new MultiplierArray(panel, context, meta);
  await view.show(0);
  return view;
}
