// Who occupies which bytes of SBUF and PSUM, from which instruction to which?

import { Canvas, navigate } from "./canvas.js";
import { button, choice, fill, make, sourceLine } from "./elements.js";
import { binaryTicks, Range, ticks } from "./range.js";
import { fit } from "./timeline_draw.js";
import { number, percent } from "./words.js";

const LEFT = 74;
const TOP = 8;
const BOTTOM = 22;
const HEIGHTS = { sbuf: 190, psum: 168 };
const TITLES = { sbuf: "SBUF", psum: "PSUM" };

/** Return the tile at an instruction and byte, or -1; of several the one that lies on top. */
export function tileAt(tiles, partition, instruction, byte) {
  for (let k = tiles.count - 1; k >= 0; k--) {
    if (
      tiles.first[k] <= instruction && instruction <= tiles.last[k] &&
      tiles.address[k] <= byte && byte < tiles.address[k] + tiles.size[k] && inPartition(tiles, k, partition)
    ) return k;
  }
  return -1;
}

function inPartition(tiles, k, partition) {
  return partition < 0 || (tiles.partition[k] <= partition && partition < tiles.partition[k] + tiles.partitions[k]);
}

class MemoryMap {
  constructor(owner, memory, facts, arrays) {
    Object.assign(this, { owner, memory, facts, theme: owner.context.theme, whole: false });
    this.tiles = { count: facts.tiles };
    for (const [name, column] of Object.entries(arrays)) {
      const [of, field] = name.split(".");
      if (of === memory) this.tiles[field] = column;
    }
    const { peak, usable, peak_at: at, end } = facts;
    const text = facts.tiles
      ? `${TITLES[memory]}: ${number(facts.tiles)} ${facts.tiles === 1 ? "tile" : "tiles"}; at most ${number(peak)} of ${number(usable)} bytes per partition in use (${percent(peak / usable)}), at instruction ${number(at)}; the highest byte used is ${number(end - 1)}`
      : `${TITLES[memory]}: not used`;
    this.canvas = new Canvas((pen, width, height) => this.paint(pen, width, height), `${text}. Step through tiles with [ and ].`, facts.tiles ? HEIGHTS[memory] : 30);
    this.element = make("section", {}, make("h4", {}, text), this.canvas.box);
    navigate(this.canvas, owner.range, () => [LEFT, this.canvas.width - LEFT - 4], {
      changed: () => owner.changed(),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.canvas.showTip(null),
      click: (x, y) => owner.choose(this, this.hit(x, y)),
      keys: { "[": () => this.step(-1), "]": () => this.step(1), Escape: () => owner.choose(this, -1) },
    });
  }

  /** Bytes from bottom to top: all of the memory, or what is used of one that is large. */
  get reach() {
    const all = Math.max(this.facts.capacity, this.facts.end);
    return this.owner.whole || this.facts.bank ? all : Math.min(all, Math.max(this.facts.end * 1.08, 64));
  }

  get scale() {
    const across = (this.canvas.width - LEFT - 4) / this.owner.range.span;
    const down = (this.canvas.height - TOP - BOTTOM) / this.reach;
    return { across, down, floor: this.canvas.height - BOTTOM };
  }

  paint(pen, width, height) {
    if (!this.tiles.count) return;
    const { now } = this.theme;
    const { across, down, floor } = this.scale;
    const { range, partition } = this.owner;
    const t = this.tiles;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.axes(pen, width, floor);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, width - LEFT - 4, floor - TOP);
    pen.clip();
    for (let k = 0; k < t.count; k++) {
      if (t.last[k] + 1 < range.lo || t.first[k] > range.hi || !inPartition(t, k, partition)) continue;
      const x = LEFT + (t.first[k] - range.lo) * across;
      const w = Math.max(1, (t.last[k] + 1 - t.first[k]) * across);
      const h = Math.max(1, t.size[k] * down);
      const y = floor - (t.address[k] + t.size[k]) * down;
      pen.fillStyle = this.theme.line(this.owner.places[t.place[k]][0]);
      pen.globalAlpha = t.partitions[k] < this.facts.partitions && partition < 0 ? 0.6 : 0.9;
      pen.fillRect(x, y, Math.max(1, w - (w > 4 ? 1 : 0)), Math.max(1, h - (h > 4 ? 1 : 0)));
      pen.globalAlpha = 1;
      if (this.owner.chosen === this && this.owner.tile === k) {
        pen.strokeStyle = now.ink;
        pen.lineWidth = 2;
        pen.strokeRect(x, y, w, h);
      }
      if (w > 34 && h > 11) {
        pen.fillStyle = now.onFill;
        pen.fillText(fit(pen, this.owner.names[t.name[k]], w - 8), Math.max(x, LEFT) + 4, y + h / 2);
      }
    }
    pen.restore();
    this.limits(pen, width, floor, down);
  }

  axes(pen, width, floor) {
    const { now } = this.theme;
    const { across, down } = this.scale;
    pen.textAlign = "right";
    const step = this.facts.bank ? 0 : Math.max(2, (floor - TOP) / 34);
    const marks = step ? binaryTicks(0, this.reach, step) : Array.from(
      { length: Math.floor(this.reach / this.facts.bank) + 1 }, (_, k) => k * this.facts.bank);
    for (const byte of marks) {
      const y = Math.round(floor - byte * down);
      pen.fillStyle = now.rule;
      pen.fillRect(LEFT, y, width - LEFT - 4, 1);
      pen.fillStyle = now.faint;
      const room = this.facts.bank && byte < this.reach && this.facts.bank * down > 11;
      if (room) pen.fillText(`bank ${byte / this.facts.bank}`, LEFT - 6, y - (this.facts.bank * down) / 2);
      else if (!this.facts.bank) pen.fillText(number(byte), LEFT - 6, Math.max(y, TOP + 5));
    }
    pen.textAlign = "left";
    pen.fillStyle = now.faint;
    for (const n of ticks(this.owner.range.lo, this.owner.range.hi, Math.max(2, width / 120))) {
      if (n % 1) continue;
      const x = LEFT + (n - this.owner.range.lo) * across;
      pen.fillRect(x, floor, 1, 4);
      if (x + 60 < width) pen.fillText(`#${number(n)}`, x + 3, floor + 10);
    }
  }

  /** Draw where the memory ends for kernels, and where it ends altogether. */
  limits(pen, width, floor, down) {
    const { usable, capacity, end } = this.facts;
    const { now } = this.theme;
    pen.fillStyle = now.faint;
    pen.fillRect(LEFT, floor, width - LEFT - 4, 1);
    if (this.reach < usable || (this.facts.bank && end <= capacity)) return; // the banks are the limit
    const y = Math.round(floor - usable * down);
    pen.fillStyle = now.limit;
    pen.fillRect(LEFT, Math.max(TOP, y), width - LEFT - 4, 2);
    const text = capacity > usable ? `usable: ${number(usable)} bytes per partition; the rest is reserved` : `capacity: ${number(usable)} bytes per partition`;
    pen.textAlign = "right";
    pen.fillText(end > capacity ? `${text}; tiles lie past the end` : text, width - 8, Math.max(TOP, y) + 10);
    pen.textAlign = "left";
  }

  hit(x, y) {
    const { across, down, floor } = this.scale;
    if (x < LEFT || y > floor || !this.tiles.count) return -1;
    const instruction = Math.floor(this.owner.range.lo + (x - LEFT) / across);
    return tileAt(this.tiles, this.owner.partition, instruction, (floor - y) / down);
  }

  hover(x, y) {
    const k = this.hit(x, y);
    this.canvas.showTip(k < 0 ? null : this.describe(k), x, y);
  }

  /** Choose the tile before or after the chosen one. */
  step(by) {
    const from = this.owner.chosen === this && this.owner.tile >= 0 ? this.owner.tile + by : 0;
    if (from >= 0 && from < this.tiles.count) this.owner.choose(this, from);
  }

  describe(k) {
    const t = this.tiles;
    const { names, places } = this.owner;
    const to = t.partition[k] + t.partitions[k] - 1;
    const [place, text] = places[t.place[k]];
    return [
      `${names[t.name[k]]} ${names[t.kind[k]]}`,
      `bytes ${number(t.address[k])} to ${number(t.address[k] + t.size[k] - 1)} (${number(t.size[k])}) of partitions ${t.partition[k]} to ${to}`,
      `in use from instruction #${number(t.first[k])} to #${number(t.last[k])}`,
      ...(place ? [`${place}: ${text.trim()}`] : []),
    ];
  }
}

class Memory {
  constructor(panel, context, { meta, arrays }) {
    Object.assign(this, { context, names: meta.names, places: meta.places, partition: -1, whole: false, tile: -1 });
    this.range = new Range(0, Math.max(1, meta.operations), Math.min(4, Math.max(1, meta.operations)));
    this.maps = Object.entries(meta.memories).map(([memory, facts]) => new MemoryMap(this, memory, facts, arrays));
    this.detail = make("div", { class: "nki-detail" });
    const sizes = Object.values(meta.memories)[0].partitions;
    const partitions = [0, 32, 64, 96].filter((p) => p < sizes).map((p) => [p, `partition ${p}`]);
    fill(panel,
      make("div", { class: "nki-bar" },
        choice("show", [["used", "what is used of SBUF"], ["whole", "all of SBUF"]], "used",
          (value) => { this.whole = value === "whole"; this.changed(); }),
        choice("in", [[-1, "all partitions"], ...partitions], -1, (value) => { this.partition = Number(value); this.changed(); }),
        button("Fit", "Show every instruction (0, double click)", () => { this.range.reset(); this.changed(); })),
      this.maps.map((map) => map.element),
      make("p", { class: "nki-help" }, "Instructions in program order from left to right, addresses from bottom to top. A tile is in use from its first to its last access; its colour is the line that made it. " +
        `Addresses can be higher than the bytes in use: ${meta.note}.`),
      this.detail);
  }

  changed() {
    for (const map of this.maps) map.canvas.ask();
  }

  choose(map, k) {
    Object.assign(this, { chosen: map, tile: k });
    this.changed();
    if (k < 0) {
      fill(this.detail);
      return;
    }
    const [head, where, when] = map.describe(k);
    const [place, text] = this.places[map.tiles.place[k]];
    const first = map.tiles.first[k];
    const jump = this.context.open.ir && button("Show in IR", "Show its first use in the program's text", () => this.context.open.ir({ position: first }));
    fill(this.detail, make("h4", {}, head), make("p", {}, `${where}; ${when} `, jump), make("p", {}, sourceLine(place, text)));
  }

  refresh() {
    for (const map of this.maps) {
      map.canvas.resize();
      map.canvas.ask();
    }
  }

  close() {
    for (const map of this.maps) map.canvas.close();
  }
}

/** Show both memories in `panel`; returns the view. */
export async function mountMemory(panel, context) {
  return new Memory(panel, context, await context.source.get("memory"));
}
