// Chooses the colour of an event, and explains the colours.

import { choice, fill, make } from "../../widgets/static/elements.js";
import { focusOn } from "./focus.js";
import { number } from "../../widgets/static/words.js";

const KEYS_SHOWN = 16;
const STALLS_PATIENCE_MS = 60000; // the first answer of a large run looks at all of its events
const COLOURINGS = [
  ["line", "source line"], ["tensor", "tensor"], ["engine", "engine"], ["opcode", "opcode"], ["stall", "what was waited for"],
  ["program", "program of the launch grid"],
];
/** Colouring -> the part of the kernel that has a code for each event; code 0 is none. */
const CODED = { tensor: "timeline/tensors", stall: "timeline/stalls", program: "timeline/programs" };

/** The colours of the events of a timeline, and the list that explains them. */
export class Colours {
  constructor(view) {
    Object.assign(this, { view, by: "line", coded: {} });
    this.legend = make("div", { class: "nki-legend", role: "group", "aria-label": "Colours" });
    this.choice = choice("colour by", COLOURINGS, this.by, (value) => {
      this.by = value;
      this.change();
    });
  }

  /** Colour as another timeline did, as soon as the events are there. */
  keep(by) {
    this.choice.querySelector("select").value = by;
    this.by = by;
  }

  /** Return the colour of an event. */
  of(i, lane) {
    const { events, theme } = this.view;
    switch (this.by) {
      case "line": return events.line[i] ? this.lines[events.line[i]] : theme.engine(lane.engine);
      case "engine": return theme.engine(lane.engine);
      case "opcode": return lane.engine === "dma" ? theme.engine(lane.engine) : theme.series(events.title[i]);
      default: {
        const code = this.coded[this.by]?.codes[i];
        return code ? theme.series(code - 1) : theme.now.faint;
      }
    }
  }

  /** Return the numbers of the lines whose events are known, those with most time first. */
  costliest() {
    const { events } = this.view;
    const sums = new Float64Array(events.lines.length);
    for (const lane of events.lanes) for (let i = lane.lo; i < lane.hi; i++) sums[events.line[i]] += events.duration[i];
    return [...sums.keys()].filter((k) => k && sums[k]).sort((a, b) => sums[b] - sums[a]);
  }

  /** Tell whether an event's colour stands for a second line as well: it is then drawn with a stripe. */
  isStriped(i) {
    return this.by === "line" && Boolean(this.again?.[this.view.events.line[i]]);
  }

  /** Fix the colour of every line and list what the colours mean. */
  list() {
    const { view } = this;
    // In two runs a line is known by its text: its number may have changed.
    const keys = view.events.lines.map((line) => line && ((view.compared && line.text.trim()) || line.place));
    // Colours are fewer than lines may be: those that take most time get one of their own (also from `head.lines`).
    for (const k of this.costliest()) view.theme.line(keys[k]);
    this.lines = keys.map((key) => view.theme.line(key));
    this.again = keys.map((key) => view.theme.isAgain(key));
    const entries = this.entries();
    fill(this.legend,
      ...entries.slice(0, KEYS_SHOWN).map(({ colour, again, name, text, fits }) => make("button", {
        type: "button", class: "nki-key", title: `${text || name}: only these stand out`, onclick: () => this.focus(name, fits),
      }, make("span", { class: `nki-chip ${again ? "nki-again" : ""}`, style: { backgroundColor: colour } }), make("span", { class: text ? "nki-key-name" : null }, name), text && make("code", {}, text))),
      ...(entries.length > KEYS_SHOWN ? [make("span", { class: "nki-faint" }, `and ${number(entries.length - KEYS_SHOWN)} more`)] : []));
  }

  entries() {
    const { events, theme, tracks, compared } = this.view;
    if (this.by === "line") {
      const known = new Map(); // a line of both runs is one
      events.lines.slice(1).forEach((line, k) => {
        const text = line.text.trim();
        const key = (compared && text) || line.place;
        if (!known.has(key)) known.set(key, { colour: this.lines[k + 1], again: this.again[k + 1], name: line.place, text, codes: new Set() });
        known.get(key).codes.add(k + 1);
      });
      return [...known.values()].map((entry) => ({ ...entry, fits: (i) => entry.codes.has(events.line[i]) }));
    }
    if (this.by === "engine") {
      const engines = [...new Set(tracks.filter((t) => t.count).map((t) => t.engine))];
      return engines.map((engine) => ({ colour: theme.engine(engine), name: theme.engineLabel(engine), fits: (i, lane) => lane.engine === engine }));
    }
    if (this.by === "opcode") {
      const used = new Set();
      for (const lane of events.lanes) if (lane.engine !== "dma") for (let i = lane.lo; i < lane.hi; i++) used.add(events.title[i]);
      const found = [...used].map((code) => ({
        colour: theme.series(code), name: events.titles[code], fits: (i, lane) => lane.engine !== "dma" && events.title[i] === code,
      }));
      if (events.lanes.some((lane) => lane.engine === "dma" && lane.hi > lane.lo)) {
        found.push({ colour: theme.engine("dma"), name: "transfers", fits: (i, lane) => lane.engine === "dma" });
      }
      return found;
    }
    const coded = this.coded[this.by];
    if (!coded) return [];
    const none = coded.codes.includes(0);
    return [...coded.names.keys()].filter((code) => code || none).map((code) => ({
      colour: code ? theme.series(code - 1) : theme.now.faint, name: coded.names[code], fits: (i) => coded.codes[i] === code,
    })).sort((a, b) => Number(a.name === coded.names[0]) - Number(b.name === coded.names[0]));
  }

  /** Let only the events of one colour stand out; once more, all of them. */
  focus(name, fits) {
    const { view } = this;
    if (view.focus?.label === name) {
      view.setFocus(null);
      return;
    }
    const mask = new Uint8Array(view.events.start.length);
    for (const lane of view.events.lanes) for (let i = lane.lo; i < lane.hi; i++) mask[i] = Number(fits(i, lane));
    view.setFocus(focusOn(mask, name));
  }

  change() {
    const { view, by } = this;
    if (!view.events) return;
    this.list();
    view.canvas.ask();
    this.know(by);
  }

  /** Fetch what a colouring says of every event, once; the tip of an event then says it, too. */
  know(by) {
    const { view } = this;
    if (!CODED[by] || this.coded[by]) return;
    view.tell("looking …");
    view.context.source.get(CODED[by], STALLS_PATIENCE_MS).then(({ meta, arrays }) => {
      this.coded[by] = { names: meta.names, codes: arrays.code };
      this.list();
      view.canvas.ask();
      view.tell();
    }, (problem) => view.tell(problem.message));
  }
}
