// What happens on which engine and DMA queue, and when?

import { Canvas, navigate } from "./canvas.js";
import { button, choice, fill, make, notice, sourceLine, table } from "./elements.js";
import { Range } from "./range.js";
import { busyBefore, busyTime, eventAt } from "./search.js";
import { countVisible, labelWidth, paint, placeLanes } from "./timeline_draw.js";
import { duration, number, percent, time } from "./words.js";

const NO_LINE = 0;
const SHOWN_FIRST = ["opcode", "operands", "variable", "source", "dest", "transfer_bytes"];

class Timeline {
  constructor(panel, context, overview) {
    const { meta, arrays } = overview;
    Object.assign(this, { panel, context, theme: context.theme, tracks: meta.tracks, meta });
    this.origin = meta.span[0];
    this.total = meta.span[1] - meta.span[0];
    this.busy = arrays.busy;
    this.buckets = meta.columns;
    this.range = new Range(0, this.total, Math.min(20, this.total));
    this.colouring = "line";
    this.chosen = -1;
    this.build();
    this.place([]);
  }

  build() {
    const names = this.tracks.filter((t) => t.count).map((t) => t.label).join(", ");
    this.canvas = new Canvas(
      (pen, width, height) => this.paint(pen, width, height),
      `Timeline of ${number(this.meta.events)} events on ${names}. Zoom with W and S, move with A and D, ` +
        "fit with 0, step through events with [ and ].",
    );
    this.status = make("span", { class: "nki-faint", "aria-live": "polite" });
    this.legend = make("div", { class: "nki-legend" });
    this.detail = make("div", { class: "nki-detail" },
      make("p", { class: "nki-faint" }, "Click an event to see its operands, its source line and its times."));
    const zoom = (act) => () => { act(); this.changed(); };
    fill(this.panel,
      make("div", { class: "nki-bar" },
        choice("colour by", [["line", "source line"], ["engine", "engine"], ["title", "opcode, tensor"]],
          this.colouring, (value) => { this.colouring = value; this.recolour(); }),
        button("+", "Zoom in (W)", zoom(() => this.range.zoom(this.range.at(0.5), 0.6))),
        button("−", "Zoom out (S)", zoom(() => this.range.zoom(this.range.at(0.5), 1 / 0.6))),
        button("Fit", "Show everything (0, double click)", zoom(() => this.range.reset())),
        this.status),
      this.canvas.box, this.legend,
      make("p", { class: "nki-help" }, "Wheel zooms, drag moves, shift + drag zooms to a span, W A S D as in Neuron Explorer."),
      this.detail);
    navigate(this.canvas, this.range, () => [this.left, this.canvas.width - this.left], {
      changed: () => this.changed(),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.canvas.showTip(null),
      click: (x, y) => this.choose(this.hit(x, y)),
      keys: { "[": () => this.step(-1), "]": () => this.step(1), Escape: () => this.choose(-1) },
    });
  }

  place(lanes) {
    Object.assign(this, placeLanes(this.tracks, lanes));
    this.left = labelWidth(this.canvas.pen, this.tracks);
    this.canvas.setHeight(this.height);
    this.canvas.ask();
    this.tell();
  }

  /** Take a block of columns; events are drawn as their lanes become complete. */
  add({ meta, arrays }) {
    if (meta.first === 0) {
      const full = {};
      for (const [name, column] of Object.entries(arrays)) full[name] = new column.constructor(meta.total);
      const lanes = meta.lanes.map(([track, lo, hi]) => ({ track, lo, hi, engine: this.tracks[track].engine }));
      this.incoming = { ...full, lanes, titles: meta.titles, lines: [null, ...meta.lines], received: 0 };
    }
    const data = this.incoming;
    for (const [name, column] of Object.entries(arrays)) data[name].set(column, meta.first);
    data.received = meta.first + arrays.start.length;
    if (data.received < data.start.length) {
      this.tell(`${number(data.received)} of ${number(data.start.length)} events have arrived`);
      return;
    }
    data.sums = busyBefore(data.duration);
    this.events = data;
    this.paintNames();
    this.place(meta.lanes || data.lanes.map((lane) => [lane.track]));
  }

  colourOf(i, lane) {
    if (this.colouring === "engine") return this.theme.engine(lane.engine);
    if (this.colouring === "title") return this.theme.series(this.events.title[i]);
    const line = this.events.line[i];
    return line === NO_LINE ? this.theme.engine(lane.engine) : this.lineColours[line];
  }

  title(i) {
    return this.events.titles[this.events.title[i]];
  }

  /** Fix the colour of every line and list them. */
  paintNames() {
    this.lineColours = this.events.lines.map((line) => this.theme.line(line && line.place));
    const entries = { line: [], engine: [], title: [] };
    this.events.lines.slice(1).forEach((line, k) =>
      entries.line.push([this.lineColours[k + 1], line.place, line.text.trim()]));
    for (const engine of new Set(this.tracks.filter((t) => t.count).map((t) => t.engine))) {
      entries.engine.push([this.theme.engine(engine), this.theme.engineLabel(engine), ""]);
    }
    this.events.titles.forEach((title, k) => entries.title.push([this.theme.series(k), title, ""]));
    const shown = entries[this.colouring];
    fill(this.legend,
      ...shown.slice(0, 12).map(([colour, name, text]) => make("span", { class: "nki-key", title: text },
        make("span", { class: "nki-chip", style: { background: colour } }), name, text && make("code", {}, text))),
      ...(shown.length > 12 ? [make("span", { class: "nki-faint" }, `and ${shown.length - 12} more`)] : []));
  }

  recolour() {
    if (this.events) this.paintNames();
    this.canvas.ask();
  }

  changed() {
    this.canvas.ask();
    this.tell();
  }

  tell(message) {
    const { lo, hi, span } = this.range;
    let text = `${time(lo + this.origin, span)} to ${time(hi + this.origin, span)}`;
    text += this.range.whole ? "" : ` (${time(span)})`;
    if (this.events) text += `: ${number(countVisible(this))} of ${number(this.meta.events)} events`;
    this.status.textContent = message || text;
  }

  paint(pen, width, height) {
    paint(pen, this, width, height);
  }

  hit(x, y) {
    if (!this.events || x < this.left) return -1;
    const row = this.rows.findIndex((r) => y >= r.y && y < r.y + r.height);
    if (row < 0 || row >= this.events.lanes.length) return -1;
    const { lo, hi } = this.events.lanes[row];
    const perPixel = this.range.span / (this.canvas.width - this.left);
    const at = this.range.at((x - this.left) / (this.canvas.width - this.left));
    return eventAt(this.events.start, this.events.duration, lo, hi, at, perPixel);
  }

  hover(x, y) {
    const i = this.hit(x, y);
    if (i >= 0) {
      this.canvas.showTip(this.describe(i), x, y);
      return;
    }
    const k = this.bands.findIndex((band) => y >= band.y && y < band.y + band.height);
    const track = this.tracks[k];
    this.canvas.showTip(track && x < this.left ? this.describeTrack(track, k) : null, x, y);
  }

  describeTrack(track, k) {
    const lines = [
      track.label, `${number(track.count)} ${track.unit}, busy ${duration(track.busy)} of ${duration(this.total)}`,
    ];
    const lanes = this.events ? this.events.lanes.filter((lane) => lane.track === k) : [];
    if (lanes.length === 1 && !this.range.whole) { // where events overlap, lanes do not add up
      const { start, duration: lasting, sums } = this.events;
      const busy = busyTime(start, lasting, sums, lanes[0].lo, lanes[0].hi, this.range.lo, this.range.hi);
      lines.push(`in view: busy ${percent(busy / this.range.span)}`);
    }
    return lines;
  }

  describe(i) {
    const data = this.events;
    const lane = data.lanes.find((l) => i >= l.lo && i < l.hi);
    const start = data.start[i] + this.origin;
    const line = data.lines[data.line[i]];
    return [
      `${this.title(i)} on ${this.tracks[lane.track].label}`,
      `${number(start)} to ${number(start + data.duration[i])} ns, ${duration(data.duration[i])}`,
      ...(line ? [line.place, line.text.trim()] : []),
    ];
  }

  step(by) {
    if (!this.events) return;
    const next = this.chosen < 0 ? 0 : this.chosen + by;
    if (next < 0 || next >= this.events.start.length) return;
    const { start, duration: lasting } = this.events;
    if (start[next] < this.range.lo || start[next] + lasting[next] > this.range.hi) {
      const half = Math.max(this.range.span / 2, lasting[next]);
      this.range.set(start[next] - half, start[next] + half);
    }
    this.choose(next);
  }

  choose(i) {
    this.chosen = i;
    this.canvas.ask();
    if (i < 0) {
      fill(this.detail);
      return;
    }
    const [head, when, place, text] = this.describe(i);
    const rest = make("div", {}, notice("…"));
    fill(this.detail, make("h4", {}, head), make("p", {}, when, " "), make("p", {}, sourceLine(place, text)), rest);
    this.context.source.get(`timeline/event/${i}`).then(({ meta }) => {
      if (this.chosen === i) fill(rest, ...this.facts(meta));
    }, (problem) => fill(rest, notice(problem.message, "error")));
  }

  facts(meta) {
    const names = Object.keys(meta.fields);
    const order = [...SHOWN_FIRST.filter((n) => names.includes(n)), ...names.filter((n) => !SHOWN_FIRST.includes(n))];
    const written = (value) => (typeof value === "number" ? value.toLocaleString("en-US") : String(value));
    const facts = table(["field", "value"], order.map((name) => [name, written(meta.fields[name])]));
    if (meta.position === undefined) return [facts];
    const { open } = this.context;
    const jumps = make("span", { class: "nki-use" },
      open.ir && button("Show in IR", "Show this instruction in the program's text", () => open.ir({ position: meta.position })),
      open.stepper && button("Step to it", "Show the values before and after this instruction", () => open.stepper({ position: meta.position })));
    return [make("p", { class: "nki-use" }, make("code", {}, meta.operation), jumps), facts];
  }

  /** Draw anew after the panel was hidden or the theme changed. */
  refresh() {
    if (this.events) this.paintNames();
    this.canvas.resize();
    this.canvas.ask();
  }

  close() {
    this.canvas.close();
  }
}

/** Show the timeline in `panel`; returns the view. */
export async function mountTimeline(panel, context) {
  const view = new Timeline(panel, context, await context.source.get("timeline"));
  context.source.stream("timeline/events", (part) => view.add(part))
    .catch((problem) => view.tell(problem.message));
  return view;
}
