// Paints a timeline: geometry of the rows, the axis, and events at any zoom.

import { FONT, fit } from "../../widgets/static/canvas.js";
import { placeLabels, ticks } from "../../widgets/static/range.js";
import { overlapping, walk } from "./search.js";
import { word } from "../../widgets/static/theme.js";
import { percent, time } from "../../widgets/static/words.js";

export const TOP = 24;
const ROW = 20;
const PAIRED_ROW = 14;
const GAP = 3;
const MIN_LABEL_PX = 38;
const SMALL_FONT = "9px system-ui, sans-serif";

/**
 * Return where each lane lies: {y, height, track}, each track's {y, height}, and where all of them end.
 *
 * Tracks stand in the order of `order`; those that follow a track of the same `pair` touch it. Tracks that `order` lacks
 * have no height.
 */
export function placeLanes(tracks, lanes, order = tracks.map((_, k) => k)) {
  const own = tracks.map(() => []);
  lanes.forEach(([track], row) => own[track].push(row));
  const rows = lanes.map(() => null);
  const bands = tracks.map(() => null);
  let y = TOP;
  order.forEach((number, place) => {
    const count = Math.max(1, own[number].length);
    const row = order.paired ? PAIRED_ROW : ROW;
    const height = count === 1 ? row : Math.max(4, Math.min(11, Math.floor((order.paired ? 40 : 66) / count)));
    bands[number] = { y, height: height * count };
    own[number].forEach((lane, k) => { rows[lane] = { y: y + k * height, height, track: number }; });
    const next = tracks[order[place + 1]];
    y += height * count + (order.paired && next && next.label === tracks[number].label ? 1 : GAP);
  });
  tracks.forEach((_, number) => {
    if (bands[number]) return;
    bands[number] = { y, height: 0 };
    own[number].forEach((lane) => { rows[lane] = { y, height: 0, track: number }; });
  });
  return { rows, bands, end: y };
}

/** Return the labels of the tracks on which no run did anything, where another track did something. */
export function idleLabels(tracks) {
  const busy = new Set(tracks.filter((track) => track.count).map((track) => track.label));
  return busy.size ? [...new Set(tracks.map((track) => track.label).filter((label) => !busy.has(label)))] : [];
}

/** Return the order of the tracks of two runs in which the tracks of one name stand together. */
export function pairedOrder(tracks) {
  const kinds = [...tracks].sort((a, b) => a.core - b.core || Number(b.engine === "dma") - Number(a.engine === "dma"));
  const names = [...new Set(kinds.map((track) => track.label))];
  const order = names.flatMap((name) => tracks.map((track, k) => [track, k]).filter(([track]) => track.label === name).map(([, k]) => k));
  return Object.assign(order, { paired: true });
}

/** Return the width of the column of labels. */
export function labelWidth(pen, tracks) {
  pen.font = FONT;
  const widest = Math.max(...tracks.map((t) => pen.measureText(`A ${t.label}`).width));
  return Math.min(220, Math.ceil(widest) + 62);
}

/** Paint everything into `pen`; `view` is the state of a Timeline view. */
export function paint(pen, view, width, height) {
  const { range, left } = view;
  const columns = Math.max(1, Math.floor(width - left));
  pen.font = FONT;
  pen.textBaseline = "middle";
  axis(pen, view, columns, height);
  pen.save();
  pen.beginPath();
  pen.rect(left, TOP - 2, columns, height);
  pen.clip();
  if (view.events) events(pen, view, columns);
  else overview(pen, view, columns);
  pen.restore();
  labels(pen, view);
  const pending = view.canvas.selection;
  if (pending) rectangle(pen, view, pending, view.canvas.selectedRows || [TOP, height], 0.15);
  if (view.box) {
    const edge = (t) => left + Math.min(1, Math.max(0, range.share(t))) * columns;
    if (view.box.t1 > range.lo && view.box.t0 < range.hi) {
      rectangle(pen, view, [edge(view.box.t0), edge(view.box.t1)], [view.box.y0, view.box.y1], 0.08);
    }
  }
}

function rectangle(pen, view, [a, b], [c, d], alpha) {
  const place = [Math.min(a, b), Math.min(c, d), Math.abs(b - a), Math.abs(d - c)];
  pen.fillStyle = pen.strokeStyle = view.theme.now.ink;
  pen.globalAlpha = alpha;
  pen.fillRect(...place);
  pen.globalAlpha = 1;
  pen.lineWidth = 1;
  pen.strokeRect(...place);
}

function axis(pen, view, columns, height) {
  const { range, theme, left, origin } = view;
  pen.strokeStyle = theme.now.rule;
  pen.fillStyle = theme.now.faint;
  pen.lineWidth = 1;
  pen.beginPath();
  const times = ticks(range.lo, range.hi, Math.max(2, columns / 110));
  // The end of the run has a mark, too: it tells how long the run takes.
  if (range.hi === range.last && times[times.length - 1] !== range.hi) times.push(range.hi);
  const marks = times.map((t) => [Math.min(left + range.share(t) * columns, left + columns - 1), time(t + origin, range.span)]);
  for (const [x] of marks) {
    pen.moveTo(Math.floor(x) + 0.5, TOP - 6);
    pen.lineTo(Math.floor(x) + 0.5, height);
  }
  pen.stroke();
  for (const [x, text] of placeLabels(marks, left + columns, (text) => pen.measureText(text).width)) pen.fillText(text, x, 9);
}

function labels(pen, view) {
  const { theme, tracks, bands, left, total } = view;
  tracks.forEach((track, k) => {
    if (!bands[k].height) return;
    const middle = bands[k].y + Math.min(bands[k].height, 2 * ROW) / 2;
    pen.fillStyle = theme.engine(track.engine);
    pen.fillRect(0, bands[k].y, 4, bands[k].height);
    pen.fillStyle = track.count ? theme.now.ink : theme.now.faint;
    const share = track.count ? percent(track.busy / (view.meta.runs[track.run].total || total)) : view.meta.missing ? "?" : "idle";
    pen.textAlign = "right";
    pen.fillText(share, left - 6, middle);
    const room = left - 18 - pen.measureText(share).width;
    pen.textAlign = "left";
    pen.fillText(fit(pen, view.runPrefix(track.run) + track.label, room), 9, middle);
    pen.fillStyle = theme.now.rule;
    pen.fillRect(left, bands[k].y + bands[k].height + 1, 1e5, 1);
  });
}

function overview(pen, view, columns) {
  const { range, theme, tracks, bands, left, busy, buckets, total } = view;
  tracks.forEach((track, k) => {
    pen.fillStyle = theme.engine(track.engine);
    for (let x = 0; x < columns; x++) {
      const bucket = Math.floor((range.at((x + 0.5) / columns) / total) * buckets);
      const share = busy[k * buckets + Math.min(buckets - 1, Math.max(0, bucket))];
      if (!share) continue;
      pen.globalAlpha = 0.15 + (0.85 * share) / 255;
      pen.fillRect(left + x, bands[k].y, 1, bands[k].height);
    }
  });
  pen.globalAlpha = 1;
}

function events(pen, view, columns) {
  const { range, rows, left, events: data } = view;
  const count = rows.length;
  if (!view.image || view.image.width !== columns || view.image.height !== count) {
    view.buffer = Object.assign(document.createElement("canvas"), { width: columns, height: count });
    view.image = view.buffer.getContext("2d").createImageData(columns, count);
    view.pixels = new Uint32Array(view.image.data.buffer);
  }
  const { pixels, focus } = view;
  pixels.fill(0);
  const wide = [];
  data.lanes.forEach((lane, row) => {
    if (lane.hi > data.received) return;
    const at = row * columns;
    walk(
      lane, columns, range.lo, range.hi, data.start, data.duration, data.sums,
      (x, i, share, next) => {
        // Where something stands out, it is what a column shows.
        const shown = focus ? focus.next[i] : i;
        const pale = focus && shown >= next;
        const alpha = Math.round(255 * (pale ? 0.05 + 0.12 * share : (focus ? 0.5 : 0.15) + (focus ? 0.5 : 0.85) * share));
        pixels[at + x] = ((alpha << 24) | word(view.colourOf(pale ? i : shown, lane))) >>> 0;
      },
      (i, a, b) => wide.push(row, i, a, b),
    );
  });
  // Narrow events go into an image of one pixel per lane and column, stretched onto the rows.
  view.buffer.getContext("2d").putImageData(view.image, 0, 0);
  pen.imageSmoothingEnabled = false;
  rows.forEach((row, k) => {
    pen.drawImage(view.buffer, 0, k, columns, 1, left, row.y, columns, row.height);
  });
  for (let k = 0; k < wide.length; k += 4) {
    wideEvent(pen, view, rows[wide[k]], data.lanes[wide[k]], wide[k + 1], left + wide[k + 2], left + wide[k + 3]);
  }
}

function wideEvent(pen, view, row, lane, i, a, b) {
  const { theme, focus } = view;
  const pale = focus && !focus.mask[i] && i !== view.chosen;
  pen.globalAlpha = pale ? 0.18 : 1;
  pen.fillStyle = view.colourOf(i, lane);
  // A hair of background between neighbours keeps equal colours apart.
  pen.fillRect(a, row.y, Math.max(0.5, b - a - (b - a > 3 ? 1 : 0)), row.height - (row.height > 8 ? 1 : 0));
  if (b - a > 3 && view.colours.isStriped(i)) {
    pen.fillStyle = theme.now.paper;
    pen.fillRect(a, row.y + row.height - 3, b - a - 1, row.height > 14 ? 2 : 1);
  }
  pen.globalAlpha = 1;
  if (i === view.chosen) {
    pen.strokeStyle = theme.now.ink;
    pen.lineWidth = 2;
    pen.strokeRect(a + 1, row.y + 1, Math.max(1, b - a - 3), row.height - 3);
  }
  if (b - a > MIN_LABEL_PX && row.height >= 10) {
    pen.fillStyle = pale ? theme.now.faint : theme.now.onFill;
    if (row.height < 14) pen.font = SMALL_FONT;
    pen.fillText(fit(pen, view.title(i), b - a - 8), a + 4, row.y + (row.height - (row.height > 8 ? 1 : 0)) / 2 + 0.5);
    pen.font = FONT;
  }
}

/** Count the events that are under way at some moment of what is in view. */
export function countVisible(view) {
  let count = 0;
  for (const lane of view.events.lanes) {
    const [a, b] = overlapping(
      view.events.start, view.events.duration, lane.lo, lane.hi, view.range.lo, view.range.hi,
    );
    count += b - a;
  }
  return count;
}
