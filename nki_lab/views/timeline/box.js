// Sums up a box of time and tracks, and writes it as CSV.  Without a browser.

import { overlapping } from "./search.js";

/** Return the lanes' parts [lane, first, end) that are under way at some moment of t0 <= t < t1. */
export function inBox(events, lanes, t0, t1) {
  return lanes
    .map((lane) => [lane, ...overlapping(events.start, events.duration, lane.lo, lane.hi, t0, t1)])
    .filter(([, a, b]) => b > a);
}

/**
 * Return what each track did in a box: events, time in which it was busy, and the sum of the times of its events, all
 * within t0..t1; and the same sums by title and by line.
 */
export function summarise(events, parts, t0, t1) {
  const tracks = new Map();
  const titles = sums(events.titles.length);
  const lines = sums(events.lines.length);
  let count = 0;
  for (const [lane, a, b] of parts) {
    const track = tracks.get(lane.track) || { count: 0, ns: 0, spans: null };
    tracks.set(lane.track, track);
    count += b - a;
    track.count += b - a;
    const spans = new Float64Array(2 * (b - a));
    for (let i = a; i < b; i++) {
      const from = Math.max(t0, events.start[i]);
      const to = Math.max(from, Math.min(t1, events.start[i] + events.duration[i]));
      track.ns += to - from;
      spans[2 * (i - a)] = from;
      spans[2 * (i - a) + 1] = to;
      for (const [into, key] of [[titles, events.title[i]], [lines, events.line[i]]]) {
        into.count[key]++;
        into.ns[key] += to - from;
      }
    }
    track.spans = track.spans ? union(track.spans, spans) : spans;
  }
  const byTrack = [...tracks].map(([track, { count: n, ns, spans }]) => ({ track, count: n, ns, busy: length(spans) }));
  return {
    count, tracks: byTrack.sort((x, y) => x.track - y.track), titles: ranked(titles, 0), lines: ranked(lines, 1), // line 0: none
  };
}

function sums(size) {
  return { count: new Uint32Array(size), ns: new Float64Array(size) };
}

function ranked({ count, ns }, from) {
  const found = [];
  for (let key = from; key < count.length; key++) if (count[key]) found.push({ key, count: count[key], ns: ns[key] });
  return found.sort((x, y) => y.ns - x.ns || x.key - y.key);
}

/** Return the union of two lists of spans that are sorted: pairs of begin and end, one behind the other. */
function union(one, other) {
  const found = new Float64Array(one.length + other.length);
  let size = 0;
  for (let i = 0, j = 0; i < one.length || j < other.length;) {
    const first = j >= other.length || (i < one.length && one[i] <= other[j]);
    const [from, to] = first ? [one[i], one[i + 1]] : [other[j], other[j + 1]];
    if (first) i += 2;
    else j += 2;
    if (size && from <= found[size - 1]) {
      found[size - 1] = Math.max(found[size - 1], to);
    } else {
      found[size] = from;
      found[size + 1] = to;
      size += 2;
    }
  }
  return found.subarray(0, size);
}

function length(spans) {
  let sum = 0;
  for (let k = 0; k < spans.length; k += 2) sum += spans[k + 1] - spans[k];
  return sum;
}

/** Return a field of CSV: quoted where a program that reads it could take it for more than one. */
export function csvField(value) {
  const text = String(value);
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return the events of a box as CSV, by start; times are those of the profile, in ns. */
export function boxCsv(events, parts, origin, names) {
  const rows = [];
  for (const [lane, a, b] of parts) for (let i = a; i < b; i++) rows.push([i, lane]);
  rows.sort(([i], [j]) => events.start[i] - events.start[j] || i - j);
  const text = rows.map(([i, lane]) => {
    const line = events.lines[events.line[i]];
    const start = events.start[i] + origin;
    return [
      start, start + events.duration[i], events.duration[i], names.track(lane), names.title(i),
      line ? line.place : "", line ? line.text.trim() : "",
    ].map(csvField).join(",");
  });
  return ["start_ns,end_ns,duration_ns,track,name,place,line", ...text, ""].join("\n");
}
