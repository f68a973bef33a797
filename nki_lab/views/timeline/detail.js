// Describes one event of a timeline, or a box of events.

import { button, copyText, make, table } from "../../widgets/static/elements.js";
import { busyTime } from "./search.js";
import { laneOf } from "./arrows.js";
import { boxCsv } from "./box.js";
import { duration, number, percent } from "../../widgets/static/words.js";

const SHOWN_FIRST = ["opcode", "operands", "variable", "source", "dest", "transfer_bytes"];
const MOST_ROWS = 8;

/** Return which two runs are shown, and which is faster. */
export function runsHeading(view) {
  const [a, b] = view.meta.runs;
  const faster = a.total && b.total && (a.total === b.total ? "both take the same time"
    : b.total < a.total ? `B is ${(a.total / b.total).toFixed(2)} times as fast` : `B takes ${(b.total / a.total).toFixed(2)} times as long`);
  return make("div", { class: "nki-legend" }, view.meta.runs.map((run, k) => make("span", {},
    make("strong", {}, view.runPrefix(k)), `${run.name} on ${run.target}, ${duration(run.total)}, ${run.modelled ? "modelled" : "measured"}`)),
  faster ? make("strong", {}, faster) : null);
}

/** Return lines about a track: how busy it is, in all and in what is in view. */
export function trackLines(view, track, k) {
  const lines = [
    view.runPrefix(track.run) + track.label,
    `${number(track.count)} ${track.unit}, busy ${duration(track.busy)} of ${duration(view.meta.runs[track.run].total)}`,
  ];
  const shared = view.meta.shared[track.engine];
  if (shared) lines.push(shared);
  const lanes = view.events ? view.events.lanes.filter((lane) => lane.track === k) : [];
  if (lanes.length === 1 && !view.range.whole) { // where events overlap, lanes do not add up
    const { start, duration: lasting, sums } = view.events;
    const busy = busyTime(start, lasting, sums, lanes[0].lo, lanes[0].hi, view.range.lo, view.range.hi);
    lines.push(`in view: busy ${percent(busy / view.range.span)}`);
  }
  return lines;
}

/** Return lines about an event: what and where, when, its line, and what it is coloured by. */
export function eventLines(view, i) {
  const data = view.events;
  const track = view.tracks[data.lanes[laneOf(data, i)].track];
  const start = data.start[i] + view.origin;
  const line = data.lines[data.line[i]];
  return [
    `${view.title(i)} on ${view.runPrefix(track.run)}${track.label}`,
    `${number(start)} to ${number(start + data.duration[i])} ns, ${duration(data.duration[i])}`,
    ...(line ? [line.place, line.text.trim()] : []),
    ...Object.values(view.colours.coded).map(({ names, codes }) => (codes[i] ? names[codes[i]] : null)).filter((text) => text),
  ];
}

const NUMBERED = /(^|_)(id|idx|pc|ts)$/; // of these 0 is the first one, not nothing

/** Return the fields of an event as [name, value with unit]; quantities that are zero, and what another field says, are left out. */
export function fieldRows(fields, units) {
  const names = Object.keys(fields);
  const order = [...SHOWN_FIRST.filter((n) => names.includes(n)), ...names.filter((n) => !SHOWN_FIRST.includes(n))];
  const says = (name) => {
    const value = fields[name];
    if (value === "" || value === false || (value === 0 && !NUMBERED.test(name))) return false;
    return !name.startsWith("compiler_") || value !== fields[name.slice("compiler_".length)];
  };
  return order.filter(says).map((name) => [name, withUnit(fields[name], units[name])]);
}

function withUnit(value, unit) {
  if (typeof value !== "number") return String(value);
  const [size, word] = unit === "B/s" ? [value / 1e9, "GB/s"] : [value, unit];
  const text = size.toLocaleString("en-US", { maximumFractionDigits: unit === "B/s" ? 1 : 3 });
  return word ? `${text} ${word}` : text;
}

/** Return what the kernel knows of an event: its instruction with the ways to other views, and its row. */
export function eventFacts(view, meta) {
  const { open } = view.context;
  const jumps = [
    meta.position !== undefined && open.ir && button("Show in IR", "Show this instruction in the program's text", () => open.ir({ position: meta.position })),
    meta.position !== undefined && open.stepper && button("Step to it", "Show the values before and after this instruction", () => open.stepper({ position: meta.position })),
    meta.position !== undefined && open.layout && button("Show in layout", "Show the elements it reads and writes", () => open.layout({ position: meta.position })),
  ];
  return [
    make("p", { class: "nki-use" }, meta.operation ? make("code", {}, meta.operation) : null, jumps),
    table(["field", "value"], fieldRows(meta.fields, meta.units)),
  ];
}

/** Return what an event has to do with others, as elements; `go` shows one of them. */
export function eventRelations(view, meta, go) {
  const link = (i, note) => make("li", {}, button(view.describe(i)[0], "Go to this event", () => go(i)), ` ${note}`);
  const list = (title, edges, count) => edges?.length ? make("div", {},
    make("p", {}, `${title} ${number(count)}${count > edges.length ? `, of which ${edges.length} are listed` : ""}:`),
    make("ul", {}, edges.map(([i, kind]) => link(i, kind)))) : null;
  const { waited } = meta;
  return [
    meta.loop ? make("p", {}, "Loop variables: ", make("code", {}, meta.loop)) : null,
    waited ? make("p", {}, `${waited.ns ? `Waited ${duration(waited.ns)} for: ` : "Began after: "}${waited.reason} `,
      waited.event >= 0 ? button(view.describe(waited.event)[0], "Go to what it waited for", () => go(waited.event)) : null) : null,
    make("div", { class: "nki-moments" },
      list("Depends on", meta.needs, meta.needs_count), list("Needed by", meta.feeds, meta.feeds_count)),
  ];
}

/** Return the sums over a box as elements. */
export function boxFacts(view, box) {
  const { events, tracks } = view;
  const span = box.t1 - box.t0;
  const { sums } = box;
  const rest = (rows) => rows.length > MOST_ROWS ? make("p", { class: "nki-faint" }, `and ${number(rows.length - MOST_ROWS)} more`) : null;
  const text = () => boxCsv(events, box.parts, view.origin, {
    track: (lane) => view.runPrefix(tracks[lane.track].run) + tracks[lane.track].label, title: (i) => view.title(i),
  });
  const told = make("span", { class: "nki-faint", role: "status" });
  return [
    make("h4", {}, `${number(sums.count)} events in ${duration(span)}, from ${number(box.t0 + view.origin)} to ${number(box.t1 + view.origin)} ns`),
    make("p", {},
      button("Zoom to it", "Show this span of time", () => view.zoomTo(box.t0, box.t1)), " ",
      button("Download CSV", "Keep these events as a file, a line for each", () => download(text(), view)), " ",
      button("Copy CSV", "Put these events on the clipboard", () => copyText(text(), view.panel).then((done) => {
        told.textContent = done ? "copied" : "the clipboard cannot be reached from here";
      })), " ", told),
    make("div", { class: "nki-moments" },
      make("div", {}, table(["track", "#events", "#busy", "#of the span", "#sum of times"], sums.tracks.map((t) => [
        view.runPrefix(tracks[t.track].run) + tracks[t.track].label, number(t.count), duration(t.busy), percent(t.busy / span), duration(t.ns)]))),
      make("div", {}, table(["opcode, tensor", "#events", "#time"], sums.titles.slice(0, MOST_ROWS).map((t) => [events.titles[t.key], number(t.count), duration(t.ns)])), rest(sums.titles)),
      make("div", {}, table(["line", "", "#events", "#time"], sums.lines.slice(0, MOST_ROWS).map((t) => [
        events.lines[t.key].place, make("code", {}, events.lines[t.key].text.trim()), number(t.count), duration(t.ns)])), rest(sums.lines))),
  ];
}

function download(text, view) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = make("a", { href: address, download: "timeline.csv", hidden: true });
  view.panel.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
