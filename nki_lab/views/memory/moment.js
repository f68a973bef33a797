// Shows which tile owns which bytes of SBUF and PSUM at one moment.  Partitions down, addresses across.

import { Canvas, navigate, fit } from "../../widgets/static/canvas.js";
import { fill, make } from "../../widgets/static/elements.js";
import { binaryTicks, placeLabels, Range } from "../../widgets/static/range.js";
import { bytesInUse, freeBytes, liveAt, tilesOf } from "./tiles.js";
import { number, percent } from "../../widgets/static/words.js";

const LEFT = 74;
const TOP = 4;
const BOTTOM = 20;
const HEIGHTS = { sbuf: 118, psum: 96 };
export const TITLES = { sbuf: "SBUF", psum: "PSUM" };

/** Return lines that describe a tile. */
export function describeTile({ names, places }, tiles, k) {
  const to = tiles.partition[k] + tiles.partitions[k] - 1;
  const [place, text] = places[tiles.place[k]];
  return [
    `${names[tiles.name[k]]} ${names[tiles.kind[k]]}`,
    `bytes ${number(tiles.address[k])} to ${number(tiles.address[k] + tiles.size[k] - 1)} (${number(tiles.size[k])}) of partitions ${tiles.partition[k]} to ${to}`,
    `in use from instruction #${number(tiles.first[k])} to #${number(tiles.last[k])}`,
    ...(place ? [`${place}: ${text.trim()}`] : []),
  ];
}

/** One memory at one moment; `paint(k)` gives a tile's colour, `choose(k)` is called with what is clicked. */
export class MomentMap {
  constructor(memory, facts, tiles, words, theme, { paint, choose }) {
    Object.assign(this, { memory, facts, tiles, words, theme, colourOf: paint, choose, live: [], marked: new Set(), instruction: 0 });
    const end = Math.max(64, facts.bank ? facts.capacity : Math.min(Math.max(facts.capacity, facts.end), facts.end * 1.08));
    this.range = new Range(0, end, 16);
    this.title = make("div", { class: "nki-moment-title" });
    this.canvas = new Canvas((pen, width, height) => this.draw(pen, width, height), TITLES[memory], HEIGHTS[memory]);
    this.element = make("section", { hidden: !facts.tiles }, this.title, this.canvas.box);
    navigate(this.canvas, this.range, () => [LEFT, this.canvas.width - LEFT - 4], {
      changed: () => this.canvas.ask(),
      hover: (x, y) => { const k = this.hit(x, y); this.canvas.showTip(k < 0 ? null : describeTile(words, tiles, k), x, y); },
      leave: () => this.canvas.showTip(null),
      click: (x, y) => choose(this.hit(x, y)),
    });
  }

  /** Show the memory at an instruction, with some tensors marked. */
  show(instruction, marked = this.marked) {
    Object.assign(this, { instruction, marked, live: liveAt(this.tiles, instruction) });
    const { usable, partitions } = this.facts;
    const used = bytesInUse(this.tiles, this.live, partitions);
    const { largest, fragmentation } = freeBytes(this.tiles, this.live, usable);
    const count = this.live.length;
    const text = `${TITLES[this.memory]} at instruction #${number(instruction)}: ${number(count)} ${count === 1 ? "tile" : "tiles"}, ${number(used)} of ${number(usable)} bytes per partition in use (${percent(used / usable)}); longest free stretch ${number(largest)} bytes, fragmentation ${percent(fragmentation)}`;
    this.title.textContent = text;
    this.canvas.element.setAttribute("aria-label", `${text}. ${this.live.slice(0, 20).map((k) => describeTile(this.words, this.tiles, k).slice(0, 2).join(", ")).join("; ")}`);
    this.canvas.ask();
  }

  get scale() {
    return { across: (this.canvas.width - LEFT - 4) / this.range.span, down: (this.canvas.height - TOP - BOTTOM) / this.facts.partitions };
  }

  draw(pen, width, height) {
    const { now } = this.theme;
    const { across, down } = this.scale;
    const t = this.tiles;
    const floor = height - BOTTOM;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.strokeStyle = now.rule;
    pen.lineWidth = 1;
    pen.strokeRect(LEFT - 0.5, TOP - 0.5, width - LEFT - 3, floor - TOP + 1);
    this.axes(pen, width, floor, across, down);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, width - LEFT - 4, floor - TOP);
    pen.clip();
    const dim = this.live.some((k) => this.marked.has(t.tensor[k]));
    for (const k of this.live) {
      const x = LEFT + (t.address[k] - this.range.lo) * across;
      const w = t.size[k] * across;
      if (x + w < LEFT || x > width) continue;
      const y = TOP + t.partition[k] * down;
      const h = t.partitions[k] * down;
      const strong = this.marked.has(t.tensor[k]);
      pen.fillStyle = this.colourOf(k);
      pen.globalAlpha = dim && !strong ? 0.45 : 1;
      pen.fillRect(x, y, Math.max(1, w - (w > 4 ? 1 : 0)), Math.max(1, h - 0.5));
      pen.globalAlpha = 1;
      if (strong) {
        pen.strokeStyle = now.ink;
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, Math.max(1, w - 3), Math.max(1, h - 2.5));
      }
      const from = Math.max(x, LEFT);
      if (x + w - from > 30 && h > 12) {
        pen.fillStyle = dim && !strong ? now.ink : now.onFill;
        pen.fillText(fit(pen, this.words.names[t.name[k]], x + w - from - 8), from + 4, y + Math.min(h / 2, 40));
      }
    }
    pen.restore();
    this.limit(pen, width, floor, across);
  }

  axes(pen, width, floor, across, down) {
    const { now } = this.theme;
    const { bank, partitions } = this.facts;
    pen.fillStyle = now.faint;
    pen.textAlign = "right";
    for (const p of [0, 32, 64, 96].filter((p) => p < partitions)) pen.fillText(p ? String(p) : "partition 0", LEFT - 6, TOP + p * down + 6);
    pen.textAlign = "left";
    const marks = bank && this.range.span / bank <= 16 ? Array.from({ length: Math.ceil(this.range.hi / bank) }, (_, k) => k * bank) : binaryTicks(this.range.lo, this.range.hi, width / 110);
    const named = marks.filter((byte) => byte >= this.range.lo).map((byte) => [
      LEFT + (byte - this.range.lo) * across, bank && byte % bank === 0 ? `bank ${byte / bank}` : number(byte)]);
    named.forEach(([x]) => pen.fillRect(x, floor, 1, 4));
    for (const [x, text] of placeLabels(named, width, (text) => pen.measureText(text).width)) pen.fillText(text, x, floor + 10);
  }

  limit(pen, width, floor, across) {
    const x = LEFT + (this.facts.usable - this.range.lo) * across;
    if (this.facts.bank || x < LEFT || x > width - 4) return;
    pen.fillStyle = this.theme.now.limit;
    pen.fillRect(x, TOP, 2, floor - TOP);
    pen.textAlign = "right";
    pen.fillText("usable", x - 4, TOP + 8);
    pen.textAlign = "left";
  }

  hit(x, y) {
    const { across, down } = this.scale;
    if (x < LEFT || y < TOP || y > this.canvas.height - BOTTOM) return -1;
    const byte = this.range.lo + (x - LEFT) / across;
    const partition = Math.floor((y - TOP) / down);
    const t = this.tiles;
    return this.live.findLast((k) => t.address[k] <= byte && byte < t.address[k] + t.size[k] &&
      t.partition[k] <= partition && partition < t.partition[k] + t.partitions[k]) ?? -1;
  }

  refresh() {
    this.canvas.resize();
    this.canvas.ask();
  }

  close() {
    this.canvas.close();
  }
}

/** Both memories at the moment of an executed instruction, with its operands marked. */
export class Moment {
  constructor(context, { meta, arrays }) {
    this.operands = new Set();
    this.watched = -1;
    const words = { names: meta.names, places: meta.places };
    this.maps = Object.entries(meta.memories).map(([memory, facts]) => {
      const tiles = tilesOf(memory, facts.tiles, arrays);
      return new MomentMap(memory, facts, tiles, words, context.theme, {
        paint: (k) => context.theme.line(meta.places[tiles.place[k]][0]),
        choose: (k) => { if (k >= 0 && context.open.memory) context.open.memory({ tensor: tiles.tensor[k] }); },
      });
    });
    this.element = make("div", {}, make("h4", {}, "Memory at that moment"), this.maps.map((map) => map.element));
    if (!this.maps.some((map) => map.facts.tiles)) fill(this.element);
  }

  static async of(context) {
    return new Moment(context, await context.source.get("memory"));
  }

  show(position, operands) {
    this.position = position;
    this.operands = new Set(operands.map((operand) => operand.tensor));
    this.update();
  }

  /** Mark a tensor that is watched, beside those of the instruction. */
  mark(tensor) {
    this.watched = tensor;
    this.update();
  }

  update() {
    if (this.position === undefined) return;
    const marked = new Set(this.watched < 0 ? this.operands : [...this.operands, this.watched]);
    for (const map of this.maps) map.show(this.position, marked);
  }

  refresh() {
    for (const map of this.maps) map.refresh();
  }

  close() {
    for (const map of this.maps) map.close();
  }
}
