// Shows the tiles of SBUF and PSUM over the program: their bytes, and the instructions from first to last use.

import { Canvas, navigate, fit } from "../../widgets/static/canvas.js";
import { button, choice, fill, make, notice, sourceLine } from "../../widgets/static/elements.js";
import { MomentMap, TITLES, describeTile } from "./moment.js";
import { binaryTicks, placeLabels, Range, ticks } from "../../widgets/static/range.js";
import { inPartition, lifetimeClass, liveAt, longestLifetime, tileAt, tilesOf } from "./tiles.js";
import { number, percent } from "../../widgets/static/words.js";

const LEFT = 74;
const TOP = 20; // above it, which moment is which
const CURVE = 26;
const BOTTOM = 22 + CURVE;
const HEIGHTS = { sbuf: 228, psum: 206 };
const LISTED = 60;

class MemoryMap {
  constructor(owner, memory, facts, arrays) {
    Object.assign(this, { owner, memory, facts, theme: owner.context.theme, whole: false });
    this.tiles = tilesOf(memory, facts.tiles, arrays);
    const { peak, usable, peak_at: at, end } = facts;
    const text = facts.tiles
      ? `${TITLES[memory]}: ${number(facts.tiles)} ${facts.tiles === 1 ? "tile" : "tiles"}; at most ${number(peak)} of ${number(usable)} bytes per partition in program order (${percent(peak / usable)}), at instruction ${number(at)}; the highest byte used is ${number(end - 1)}`
      : `${TITLES[memory]}: not used`;
    this.canvas = new Canvas((pen, width, height) => this.paint(pen, width, height), `${text}. Step through tiles with [ and ].`, facts.tiles ? HEIGHTS[memory] : 30);
    this.element = make("section", {}, make("h4", {}, text), this.canvas.box);
    this.moment = new MomentMap(memory, facts, this.tiles, owner, this.theme, { paint: (k) => this.colour(k), choose: (k) => owner.choose(this, k) });
    navigate(this.canvas, owner.range, () => [LEFT, this.canvas.width - LEFT - 4], {
      changed: () => owner.changed(),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.canvas.showTip(null),
      click: (x, y) => this.click(x, y),
      keys: {
        "[": () => this.step(-1), "]": () => this.step(1), Escape: () => owner.choose(this, -1),
        ",": () => owner.scrub(owner.instruction - 1), ".": () => owner.scrub(owner.instruction + 1), p: () => owner.scrub(facts.peak_at),
      },
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
      pen.fillStyle = this.colour(k);
      pen.globalAlpha = t.partitions[k] < this.facts.partitions && partition < 0 ? 0.6 : 1;
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
    this.curve(pen, width, floor, across);
    this.moments(pen, width, floor, across);
  }

  colour(k) {
    const { owner, theme, tiles } = this;
    if (owner.by === "line") return theme.line(owner.places[tiles.place[k]][0]);
    const steps = theme.now.lifetimes;
    return steps[lifetimeClass(tiles, k, owner.longest, steps.length)];
  }

  /** Draw how many bytes are in use over time, in the fullest partition. */
  curve(pen, width, floor, across) {
    const { now } = this.theme;
    const { moment, used } = this.tiles;
    const foot = this.canvas.height - 2;
    const high = CURVE - 8;
    pen.fillStyle = now.faint;
    pen.textAlign = "right";
    pen.fillText("in use", LEFT - 6, foot - high / 2);
    pen.textAlign = "left";
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, foot - high - 2, width - LEFT - 4, high + 2);
    pen.clip();
    pen.globalAlpha = 0.6;
    for (let n = 0; n < moment.length; n++) {
      const end = n + 1 < moment.length ? moment[n + 1] : this.owner.range.last;
      if (end < this.owner.range.lo || moment[n] > this.owner.range.hi) continue;
      const h = (used[n] / (this.facts.peak || 1)) * high;
      pen.fillRect(LEFT + (moment[n] - this.owner.range.lo) * across, foot - h, Math.max(0.6, (end - moment[n]) * across), h);
    }
    pen.restore();
    pen.globalAlpha = 1;
  }

  /** Draw when most is in use, and the moment that is shown below. */
  moments(pen, width, floor, across) {
    const { now } = this.theme;
    const place = (instruction) => Math.round(LEFT + (instruction + 0.5 - this.owner.range.lo) * across) + 0.5;
    const shown = `#${number(this.owner.instruction)}`;
    let taken = null;
    const mark = (instruction, colour, text, dash) => {
      const x = place(instruction);
      if (x < LEFT || x > width - 4) return;
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = dash.length ? 1 : 2;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(x, TOP - 6);
      pen.lineTo(x, this.canvas.height);
      pen.stroke();
      pen.setLineDash([]);
      const room = pen.measureText(text).width;
      const left = Math.min(x + 4, width - 4 - room);
      if (taken && left < taken[1] + 8 && taken[0] < left + room + 8) return;
      taken = [left, left + room];
      pen.fillText(text, left, 8);
    };
    mark(this.owner.instruction, now.ink, shown, []);
    mark(this.facts.peak_at, now.faint, "most in use", [4, 4]);
  }

  click(x, y) {
    const { across } = this.scale;
    if (x >= LEFT) this.owner.scrub(Math.floor(this.owner.range.lo + (x - LEFT) / across));
    const k = this.hit(x, y);
    if (k >= 0 || y < this.canvas.height - BOTTOM) this.owner.choose(this, k);
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
    const along = ticks(this.owner.range.lo, this.owner.range.hi, Math.max(2, width / 120)).filter((n) => n % 1 === 0)
      .map((n) => [LEFT + (n - this.owner.range.lo) * across, `#${number(n)}`]);
    along.forEach(([x]) => pen.fillRect(x, floor, 1, 4));
    for (const [x, text] of placeLabels(along, width, (text) => pen.measureText(text).width)) pen.fillText(text, x, floor + 10);
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
    return describeTile(this.owner, this.tiles, k);
  }
}

class Memory {
  constructor(panel, context, { meta, arrays }) {
    const last = Math.max(1, meta.operations);
    Object.assign(this, { context, names: meta.names, places: meta.places, partition: -1, whole: false, tile: -1, by: "line", last: last - 1 });
    this.range = new Range(0, last, Math.min(4, last));
    this.maps = Object.entries(meta.memories).map(([memory, facts]) => new MemoryMap(this, memory, facts, arrays));
    this.longest = longestLifetime(this.maps.map((map) => map.tiles));
    const fullest = this.maps.reduce((a, b) => (b.facts.peak / b.facts.usable > a.facts.peak / a.facts.usable ? b : a));
    this.instruction = fullest.facts.peak_at;
    this.detail = make("div", { class: "nki-detail", role: "status", "aria-live": "polite" });
    this.owners = make("div", {});
    this.keyOfColours = make("div", { class: "nki-legend" });
    const sizes = Object.values(meta.memories)[0].partitions;
    const partitions = [0, 32, 64, 96].filter((p) => p < sizes).map((p) => [p, `partition ${p}`]);
    fill(panel,
      make("div", { class: "nki-bar" },
        choice("show", [["used", "what is used of SBUF"], ["whole", "all of SBUF"]], "used",
          (value) => { this.whole = value === "whole"; this.changed(); }),
        choice("in", [[-1, "all partitions"], ...partitions], -1, (value) => { this.partition = Number(value); this.changed(); }),
        choice("colour", [["line", "by line"], ["lifetime", "by lifetime"]], "line", (value) => { this.by = value; this.legend(); this.moment(); }),
        button("Fit", "Show every instruction (0, double click)", () => { this.range.reset(); this.changed(); })),
      this.overlaps(), this.maps.map((map) => map.element), this.keyOfColours, this.scrubber(), this.maps.map((map) => map.moment.element), this.detail,
      make("details", {}, make("summary", {}, "Tiles in use at that instruction"), this.owners),
      make("p", { class: "nki-help" }, "Above, instructions in program order from left to right, addresses from bottom to top: click a moment to see below which tile owns which bytes then. A tile is in use from its first to its last access, in a device loop during all of it. " +
        "Keys on a map: , and . one instruction back and on, p to where most is in use, [ and ] from tile to tile, W A S D to zoom and move. Fragmentation is the share of the free bytes outside their longest stretch; a byte is free when no partition uses it. " +
        `Addresses can be higher than the bytes in use: ${meta.note}.`));
    this.legend();
    this.moment();
  }

  scrubber() {
    this.slider = make("input", { type: "range", min: 0, max: this.last, value: this.instruction, class: "nki-slider",
      "aria-label": "instruction whose memory is shown", oninput: () => this.scrub(Number(this.slider.value)) });
    this.field = make("input", { type: "number", min: 0, max: this.last, value: this.instruction, "aria-label": "number of the instruction",
      onchange: () => this.scrub(Number(this.field.value)) });
    return make("div", { class: "nki-bar" }, make("strong", {}, "Memory at instruction"), this.field, this.slider,
      button("◀", "One instruction back (,)", () => this.scrub(this.instruction - 1)), button("▶", "One instruction on (.)", () => this.scrub(this.instruction + 1)),
      button("Most in use", "Where most is in use (p)", () => this.scrub(this.maps.find((map) => map === this.chosen)?.facts.peak_at ?? this.maps[0].facts.peak_at)),
      this.context.open.stepper && button("Values", "Show the values of this moment in the stepper", () => this.context.open.stepper({ position: this.instruction })));
  }

  /** Name tiles that lie on each other; their bytes are spoilt on the chip. */
  overlaps() {
    return this.maps.flatMap((map) => {
      const { overlaps, tiles } = map.facts;
      if (overlaps === null) return [notice(`${TITLES[map.memory]}: overlaps were not looked for among ${number(tiles)} tiles.`)];
      const name = (k) => this.names[map.tiles.name[k]];
      return overlaps.slice(0, 8).map(([one, other, first, last, address, size]) => make("p", { class: "nki-notice error", role: "alert" },
        `${TITLES[map.memory]}: ${name(one)} and ${name(other)} overlap in ${number(size)} bytes from ${number(address)} on, both in use from instruction #${number(first)} to #${number(last)} `,
        make("button", { type: "button", onclick: () => { this.scrub(first); this.choose(map, other); } }, "Show")));
    });
  }

  legend() {
    const steps = this.context.theme.now.lifetimes;
    const bound = (k) => Math.max(1, Math.round(this.longest ** (k / steps.length)));
    fill(this.keyOfColours, this.by === "line" ? make("span", { class: "nki-faint" }, "A tile's colour is the line that made it.") : steps.map((colour, k) => make("span", { class: "nki-key" },
      make("span", { class: "nki-chip", style: { background: colour } }), k + 1 < steps.length ? `${number(bound(k))} to ${number(bound(k + 1))} instructions` : `up to ${number(this.longest)}`)));
  }

  changed() {
    for (const map of this.maps) map.canvas.ask();
  }

  /** Show the memory at an instruction. */
  scrub(instruction) {
    if (!Number.isFinite(instruction)) return;
    this.instruction = Math.min(this.last, Math.max(0, Math.round(instruction)));
    this.moment();
  }

  moment() {
    this.slider.value = this.field.value = this.instruction;
    for (const map of this.maps) map.moment.show(this.instruction, new Set(this.chosen === map && this.tile >= 0 ? [map.tiles.tensor[this.tile]] : []));
    const rows = this.maps.flatMap((map) => liveAt(map.tiles, this.instruction).map((k) => [map, k]));
    fill(this.owners, rows.slice(0, LISTED).map(([map, k]) => make("div", { class: "nki-use" },
      make("span", { class: "nki-chip", style: { background: map.colour(k) } }), make("button", { type: "button", onclick: () => this.choose(map, k) }, this.names[map.tiles.name[k]]),
      make("span", { class: "nki-faint" }, `${TITLES[map.memory]}: ${map.describe(k).slice(1, 3).join("; ")}`))),
    rows.length > LISTED ? make("div", { class: "nki-faint" }, `and ${number(rows.length - LISTED)} more`) : null);
    this.changed();
  }

  choose(map, k) {
    Object.assign(this, { chosen: map, tile: k });
    const { first, last } = map.tiles;
    if (k >= 0 && (this.instruction < first[k] || last[k] < this.instruction)) this.instruction = first[k];
    this.moment();
    if (k < 0) {
      fill(this.detail);
      return;
    }
    const [head, where, when] = map.describe(k);
    const [place, text] = this.places[map.tiles.place[k]];
    const tensor = map.tiles.tensor[k];
    const { open } = this.context;
    const uses = make("div", {}, make("span", { class: "nki-faint" }, "…"));
    fill(this.detail, make("h4", {}, head), make("p", {}, `${where}; ${when} `,
      open.ir && button("Show in IR", "Show its first use in the program's text", () => open.ir({ position: first[k] })),
      open.stepper && button("Watch", "Go to its first write in the stepper", () => open.stepper({ position: first[k], tensor }))),
    make("p", {}, "made at ", sourceLine(place, text)), uses);
    this.uses(uses, tensor);
  }

  /** List the instructions that write and read a tensor. */
  async uses(box, tensor) {
    try {
      const { meta } = await this.context.source.once(`memory/tile/${tensor}`);
      const list = (way, title) => [
        make("h4", {}, `${title} by ${number(meta[way].length + meta[`more_${way}`])}`),
        meta[way].map((use) => make("div", { class: "nki-use" },
          make("button", { type: "button", title: "Show the memory at this instruction", onclick: () => this.scrub(use.position) }, `#${number(use.position)}`),
          make("span", { class: "nki-engine" }, make("span", { class: "nki-chip", style: { background: this.context.theme.engine(use.engine) } }), use.name), sourceLine(use.place, use.source))),
        meta[`more_${way}`] ? make("div", { class: "nki-faint" }, `and ${number(meta[`more_${way}`])} more`) : null,
      ];
      fill(box, list("writers", "written"), list("readers", "read"));
    } catch (problem) {
      fill(box, make("span", { class: "nki-faint" }, problem.message));
    }
  }

  /** Show the memory at an instruction, or a tile. */
  reveal({ position, tensor }) {
    if (position !== undefined) this.scrub(position);
    if (tensor === undefined) return;
    for (const map of this.maps) {
      const k = map.tiles.tensor.indexOf(tensor);
      if (k >= 0) this.choose(map, k);
    }
  }

  refresh() {
    for (const map of this.maps) {
      map.canvas.resize();
      map.canvas.ask();
      map.moment.refresh();
    }
    this.legend();
  }

  close() {
    for (const map of this.maps) {
      map.canvas.close();
      map.moment.close();
    }
  }
}

/** Show both memories in `panel`; returns the view. */
export async function mount(panel, context) {
  return new Memory(panel, context, await context.source.get("memory"));
}
