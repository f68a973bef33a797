// Shows what happens on each engine and DMA queue over time.

import { Canvas, navigate } from "../../widgets/static/canvas.js";
import { button, choice, fill, make, notice, sourceLine } from "../../widgets/static/elements.js";
import { Range } from "../../widgets/static/range.js";
import { busyBefore, eventAt } from "./search.js";
import { Colours } from "./colours.js";
import { paintArrows } from "./arrows.js";
import { inBox, summarise } from "./box.js";
import { CurveData, paintCurves, placeCurves, valueText } from "./curves.js";
import { boxFacts, eventFacts, eventRelations, eventLines, runsHeading, trackLines } from "./detail.js";
import { countVisible, idleLabels, labelWidth, paint, pairedOrder, placeLanes } from "./draw.js";
import { findEvents, focusOn, neighbour, readQuery } from "./focus.js";
import { Marks, listMarks, paintMarks } from "./marks.js";
import { number, time } from "../../widgets/static/words.js";

const NO_LINE = 0;
const NEAR_PX = 6;
const RELATIONS_PATIENCE_MS = 60000; // the first answer of a large run looks at all of its events
const HELP = "W A S D or the wheel zooms and moves, shift + wheel moves, shift + drag selects a box, double click fits, right click or M sets a " +
  "mark, / searches, [ and ] step, C shows the critical path, ctrl + click opens the line, Esc clears.";
class Timeline {
  constructor(panel, context, overview) {
    const { meta, arrays } = overview;
    Object.assign(this, { panel, context, theme: context.theme, tracks: meta.tracks, meta });
    this.origin = meta.span[0];
    this.total = meta.span[1] - meta.span[0];
    this.busy = arrays.busy;
    this.buckets = meta.columns;
    this.range = new Range(0, this.total, Math.min(20, this.total));
    Object.assign(this, { dragging: "zoom", paired: false, chosen: -1, box: null, focus: null, path: null });
    this.marks = new Marks();
    this.colours = new Colours(this);
    this.curveData = new CurveData(context.source, this.total, () => this.placeAll());
    this.build();
    this.place([]);
  }

  get compared() {
    return this.meta.runs.length > 1;
  }

  /** Return what tells the tracks of two runs apart. */
  runPrefix(run) {
    return this.compared ? `${"AB"[run]} ` : "";
  }

  build() {
    const names = this.tracks.filter((t) => t.count).map((t) => this.runPrefix(t.run) + t.label).join(", ");
    this.canvas = new Canvas(
      (pen, width, height) => this.paint(pen, width, height),
      `Timeline of ${number(this.meta.events)} events on ${names}. Zoom with W and S, move with A and D, ` +
        "fit with 0, step through events with [ and ], search with /, show the critical path with C.",
    );
    this.status = make("span", { class: "nki-faint", "aria-live": "polite" });
    this.idle = button("", "Show or hide the lanes on which nothing happens", () => { this.showIdle = !this.showIdle; this.placeAll(); });
    this.idle.className = "nki-more";
    this.markList = make("div", { class: "nki-legend" });
    this.detail = make("div", { class: "nki-detail" },
      make("p", { class: "nki-faint" }, this.meta.missing ? "" : "Click an event to see its operands, its source line, its times, and what it waited for."));
    this.search = make("input", {
      type: "search", placeholder: "Search: name, line, tensor, >1us", "aria-label": "Search events (/)", oninput: () => this.find(this.search.value),
      onkeydown: (event) => this.searchKey(event),
    });
    this.pathButton = button("Critical path", "Show which events took the whole time (C)", () => this.togglePath());
    const zoom = (act) => () => { act(); this.changed(); };
    fill(this.panel,
      this.compared ? runsHeading(this) : null,
      make("div", { class: "nki-bar" },
        this.colours.choice,
        this.compared ? choice("two runs", [["", "stacked"], ["paired", "overlaid"]], "", (value) => {
          this.paired = Boolean(value);
          this.placeAll();
        }) : null,
        choice("drag", [["zoom", "zooms"], ["pan", "moves"], ["box", "selects"]], this.dragging, (value) => { this.dragging = value; }),
        this.pathButton,
        button("+", "Zoom in (W)", zoom(() => this.range.zoom(this.range.at(0.5), 0.6))),
        button("−", "Zoom out (S)", zoom(() => this.range.zoom(this.range.at(0.5), 1 / 0.6))),
        button("Fit", "Show everything (0, double click)", zoom(() => this.range.reset())),
        this.search, this.status),
      this.canvas.box, this.idle, this.colours.legend, this.markList, make("details", { class: "nki-help" }, make("summary", {}, "Keys and mouse"), make("p", {}, HELP)), this.detail);
    navigate(this.canvas, this.range, () => [this.left, this.canvas.width - this.left], {
      changed: () => this.changed(),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.canvas.showTip(null),
      click: (x, y, event) => this.click(this.hit(x, y), event),
      drag: (event) => (event.shiftKey ? "box" : this.dragging),
      box: ([t0, t1], [y0, y1]) => this.select(t0, t1, y0, y1),
      menu: (x) => this.mark(x),
      keys: {
        "[": () => this.step(-1), "]": () => this.step(1), Escape: () => this.clear(), "/": () => this.search.focus(),
        c: () => this.togglePath(), m: () => this.mark(this.pointer ?? this.canvas.width / 2),
      },
    });
  }

  place(lanes) {
    this.lanesPlaced = lanes;
    this.left = labelWidth(this.canvas.pen, this.tracks);
    this.placeAll();
  }

  placeAll() {
    const order = this.paired ? pairedOrder(this.tracks) : this.tracks.map((_, k) => k);
    const idle = idleLabels(this.tracks);
    const shown = order.filter((k) => this.showIdle || !idle.includes(this.tracks[k].label));
    Object.assign(this, placeLanes(this.tracks, this.lanesPlaced, Object.assign(shown, { paired: this.paired })));
    this.idle.hidden = !idle.length;
    this.idle.setAttribute("aria-expanded", String(Boolean(this.showIdle)));
    this.idle.textContent = `${this.showIdle ? "▾" : "▸"} Idle: ${idle.join(", ")}`;
    this.curves = this.curveData.now;
    const { bands, end } = placeCurves(this.curves ? this.curves.meta.curves : [], this.end, this.paired);
    this.curveBands = bands;
    this.height = end + 2;
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
    this.colours.change();
    if (this.meta.grid) this.colours.know("program");
    this.place(meta.lanes || data.lanes.map((lane) => [lane.track]));
    if (this.wanted) this.reveal(this.wanted);
  }

  colourOf(i, lane) {
    return this.colours.of(i, lane);
  }

  title(i) {
    return this.events.titles[this.events.title[i]];
  }

  // -- what stands out --------------------------------------------------------------------------------------------

  setFocus(focus) {
    this.focus = focus;
    this.pathButton.setAttribute("aria-pressed", String(Boolean(this.path && focus === this.path.focus)));
    this.canvas.ask();
    this.tell();
  }

  focusOnKey(name, fits) {
    if (this.focus?.label === name) {
      this.setFocus(null);
      return;
    }
    const mask = new Uint8Array(this.events.start.length);
    for (const lane of this.events.lanes) for (let i = lane.lo; i < lane.hi; i++) mask[i] = Number(fits(i, lane));
    this.setFocus(focusOn(mask, name));
  }

  find(text) {
    if (!this.events || !text.trim()) {
      this.setFocus(null);
      return;
    }
    const { events } = this;
    const columns = [
      { texts: events.titles, codes: events.title },
      { texts: events.lines.map((line) => (line ? `${line.place} ${line.text}` : "")), codes: events.line },
      ...Object.values(this.colours.coded).map(({ names, codes }) => ({ texts: names, codes })),
    ];
    const lane = ({ track }) => this.runPrefix(this.tracks[track].run) + this.tracks[track].label;
    this.setFocus(focusOn(findEvents(readQuery(text), events, columns, lane), `“${text.trim()}”`));
  }

  searchKey(event) {
    if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      this.search.value = "";
      this.find("");
      this.canvas.element.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Let the events that took the whole time stand out, or all of them again. */
  togglePath() {
    if (!this.events) return;
    if (this.path) {
      const shown = this.focus === this.path.focus;
      if (!shown) fill(this.detail, ...this.path.texts.map((text, run) => make("pre", {}, this.runPrefix(run), text)));
      this.setFocus(shown ? null : this.path.focus);
      return;
    }
    this.tell("following the critical path …");
    this.context.source.get("timeline/path", RELATIONS_PATIENCE_MS).then(({ meta, arrays }) => {
      const mask = new Uint8Array(this.events.start.length);
      for (const i of arrays.event) mask[i] = 1;
      let count = 0;
      const begins = new Set(meta.sizes.map((size) => (count += size)));
      this.path = { steps: arrays.event, begins, focus: focusOn(mask, "critical path"), texts: meta.texts };
      this.togglePath();
    }, (problem) => this.tell(problem.message));
  }

  clear() {
    this.search.value = "";
    this.box = null;
    this.choose(-1);
    this.setFocus(null);
  }

  /** Let the events of a line stand out, and show the first of them. */
  reveal({ place }) {
    this.wanted = this.events ? null : { place }; // shown when the events have arrived
    if (!this.events) return;
    const line = this.events.lines.findIndex((l) => l && l.place === place);
    if (line < 0) {
      this.tell(`no event came from ${place}`);
      return;
    }
    this.setFocus(focusOn(this.events.line.map((l) => Number(l === line)), place));
    this.range.reset();
    this.choose(neighbour(this.focus, this.events.start, -1, 1));
  }

  // -- boxes and marks --------------------------------------------------------------------------------------------

  /** Sum up what happens between two times, on the tracks between two heights. */
  select(t0, t1, y0 = 0, y1 = Infinity) {
    if (!this.events) return;
    const first = Math.max(0, Math.floor(t0));
    const last = Math.min(this.total, Math.max(first + 1, Math.ceil(t1)));
    const lanes = this.events.lanes.filter((_, k) => this.rows[k].y < y1 && this.rows[k].y + this.rows[k].height > y0);
    const parts = inBox(this.events, lanes, first, last);
    this.box = { t0: first, t1: last, y0: Math.max(y0, Math.min(...this.bands.map((band) => band.y))), y1: Math.min(y1, this.end), parts, sums: summarise(this.events, parts, first, last) };
    this.chosen = -1;
    this.needs = this.feeds = null;
    fill(this.detail, ...boxFacts(this, this.box));
    this.canvas.ask();
  }

  zoomTo(t0, t1) {
    this.range.set(t0, t1);
    this.changed();
  }

  mark(x) {
    if (x < this.left) return;
    const wide = this.canvas.width - this.left;
    this.marks.toggle(Math.round(this.range.at((x - this.left) / wide)), (NEAR_PX / wide) * this.range.span);
    listMarks(this.markList, this, (a, b) => this.select(a, b));
    this.canvas.ask();
  }

  // -- what is in view --------------------------------------------------------------------------------------------

  changed() {
    this.curveData.look(this.range.lo, this.range.hi);
    this.curves = this.curveData.now;
    this.canvas.ask();
    this.tell();
  }

  tell(message) {
    const { lo, hi, span } = this.range;
    let text = `${time(lo + this.origin, span)} to ${time(hi + this.origin, span)}`;
    text += this.range.whole ? "" : ` (${time(span)})`;
    if (this.events) text += `: ${number(countVisible(this))} of ${number(this.meta.events)} events`;
    if (this.focus) text += `; ${number(this.focus.count)} stand out: ${this.focus.label}`;
    this.status.textContent = message || this.meta.missing || text;
  }

  paint(pen, width, height) {
    const columns = Math.max(1, Math.floor(width - this.left));
    paint(pen, this, width, height);
    paintCurves(pen, this, columns);
    paintArrows(pen, this, columns);
    paintMarks(pen, this, columns, height);
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
    this.pointer = x;
    const i = this.hit(x, y);
    if (i >= 0) {
      this.canvas.showTip(this.describe(i), x, y);
      return;
    }
    const k = this.bands.findIndex((band) => y >= band.y && y < band.y + band.height);
    const track = this.tracks[k];
    const c = this.curveBands.findIndex((band) => y >= band.y && y < band.y + band.height);
    if (c >= 0 && x >= this.left) {
      const at = this.range.at((x - this.left) / (this.canvas.width - this.left));
      const here = this.curves.meta.curves.filter((_, n) => this.curveBands[n].y === this.curveBands[c].y);
      this.canvas.showTip([
        `${here[0].title} at ${number(at + this.origin)} ns`, ...here.map((curve) => this.runPrefix(curve.run) + valueText(this.curves, curve, at)),
      ], x, y);
      return;
    }
    this.canvas.showTip(track && x < this.left ? trackLines(this, track, k) : null, x, y);
  }

  describe(i) {
    return eventLines(this, i);
  }

  /** Go to the next event, or to the one before; among those that stand out, where some do. */
  step(by) {
    if (!this.events) return;
    if (this.focus?.count) {
      this.go(neighbour(this.focus, this.events.start, this.chosen, by));
      return;
    }
    const next = this.chosen < 0 ? 0 : this.chosen + by;
    if (next >= 0 && next < this.events.start.length) this.go(next);
  }

  /** Choose an event and bring it into view. */
  go(i) {
    const { start, duration: lasting } = this.events;
    if (start[i] < this.range.lo || start[i] + lasting[i] > this.range.hi) {
      const half = Math.max(this.range.span / 2, lasting[i]);
      this.range.set(start[i] - half, start[i] + half);
      this.changed();
    }
    this.choose(i);
  }

  click(i, event) {
    this.choose(i);
    if (event.ctrlKey || event.metaKey) this.toSource(i);
  }

  toSource(i) {
    const line = i >= 0 && this.events.lines[this.events.line[i]];
    if (line && this.context.open.source) this.context.open.source({ place: line.place });
  }

  choose(i) {
    this.chosen = i;
    this.box = null;
    this.needs = this.feeds = null;
    this.canvas.ask();
    if (i < 0) {
      fill(this.detail);
      return;
    }
    const [head, when, place, text] = this.describe(i);
    const line = this.events.line[i] !== NO_LINE;
    const rest = make("div", {}, notice("…"));
    fill(this.detail, make("h4", {}, head), make("p", {}, when, " "),
      make("p", {}, sourceLine(line && place, text), " ",
        line && this.context.open.source ? button("Show in source", "Show this line with its costs (ctrl + click)", () => this.toSource(i)) : null), rest);
    const relations = make("div", {});
    const failed = (place) => (problem) => { if (this.chosen === i) fill(place, notice(problem.message, "error")); };
    this.context.source.get(`timeline/event/${i}`).then(({ meta }) => {
      if (this.chosen !== i) return;
      const [operation, facts] = eventFacts(this, meta);
      fill(rest, operation, relations, facts);
    }, failed(rest));
    this.context.source.get(`timeline/relations/${i}`, RELATIONS_PATIENCE_MS).then(({ meta }) => {
      if (this.chosen !== i) return;
      fill(relations, ...eventRelations(this, meta, (other) => this.go(other)));
      Object.assign(this, { needs: meta.needs, feeds: meta.feeds });
      this.canvas.ask();
    }, failed(relations));
  }

  /** Draw anew after the panel was hidden or the theme changed. */
  refresh() {
    if (this.events) this.colours.list();
    this.canvas.resize();
    this.canvas.ask();
  }

  close() {
    this.curveData.close();
    this.canvas.close();
  }
}

/** Show the timeline in `panel`; returns the view. */
export async function mount(panel, context) {
  const view = new Timeline(panel, context, await context.source.get("timeline"));
  context.source.stream("timeline/events", (part) => view.add(part))
    .catch((problem) => view.tell(problem.message))
    .then(() => view.curveData.load());
  return view;
}
