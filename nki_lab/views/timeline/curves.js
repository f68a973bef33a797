// Draws curves under the tracks of a timeline, and finds the value of one at a moment.

import { FONT, fit } from "../../widgets/static/canvas.js";

const HEIGHT = 26;
const GAP = 6;

/** Return where each curve lies below `top`: {y, height}, and the end of all; two runs may share a place. */
export function placeCurves(curves, top, shared = false) {
  const places = new Map();
  const bands = curves.map((curve, k) => {
    const key = shared ? `${curve.core} ${curve.title}` : k;
    if (!places.has(key)) places.set(key, places.size);
    return { y: top + 6 + places.get(key) * (HEIGHT + GAP), height: HEIGHT };
  });
  return { bands, end: places.size ? top + 6 + places.size * (HEIGHT + GAP) : top };
}

/** Return the part of a curve that holds at `time`: its number in the columns, -1 before the first. */
export function partAt(times, curve, time) {
  let a = curve.from;
  let b = curve.to;
  while (a < b) {
    const m = (a + b) >> 1;
    if (times[m] > time) b = m;
    else a = m + 1;
  }
  return a - 1 >= curve.from ? a - 1 : -1;
}

/** Return a value of a curve with its unit. */
export function written(value, unit) {
  const digits = unit === "transfers" ? 0 : value < 10 ? 2 : 1;
  return `${value.toLocaleString("en-US", { maximumFractionDigits: digits })} ${unit}`;
}

/** Return what a curve is at `time`: one value, or the least and the most of the part around it. */
export function valueText({ arrays }, curve, time) {
  const k = partAt(arrays.time, curve, time);
  if (k < 0) return written(0, curve.unit);
  const [low, high] = [arrays.low[k], arrays.high[k]];
  return low === high ? written(high, curve.unit) : `${written(low, curve.unit)} to ${written(high, curve.unit)}`;
}

/** Paint the curves; `view.curves` is what the kernel sent for a span that holds what is in view. */
export function paintCurves(pen, view, columns) {
  const { theme, left, range, curves, curveBands } = view;
  if (!curves) return;
  const { time, low, high } = curves.arrays;
  const several = new Set(view.tracks.map((track) => track.core)).size > 1;
  pen.font = FONT;
  curves.meta.curves.forEach((curve, k) => {
    const { y, height } = curveBands[k];
    const level = (value) => y + height - (curve.top ? Math.min(1, value / curve.top) : 0) * height;
    const colour = theme.series(curve.colour);
    pen.fillStyle = theme.now.rule;
    pen.fillRect(left, y + height, columns, 1);
    pen.save();
    pen.beginPath();
    pen.rect(left, y - 2, columns, height + 3);
    pen.clip();
    const first = Math.max(curve.from, partAt(time, curve, range.lo));
    const x = (t) => left + Math.max(-2, Math.min(columns + 2, range.share(t) * columns));
    const beside = view.paired && curve.run > 0; // over the first run's: a line, and dashed
    for (const [values, alpha] of beside ? [] : [[low, 0.35], [high, 0.22]]) {
      pen.beginPath();
      pen.moveTo(x(time[first] ?? range.lo), y + height);
      for (let i = first; i < curve.to && time[i] <= range.hi; i++) {
        const end = i + 1 < curve.to ? time[i + 1] : range.hi;
        pen.lineTo(x(time[i]), level(values[i]));
        pen.lineTo(x(end), level(values[i]));
      }
      pen.lineTo(x(range.hi), y + height);
      pen.globalAlpha = alpha;
      pen.fillStyle = colour;
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colour;
    pen.lineWidth = beside ? 1.8 : 1.2;
    if (beside) pen.strokeStyle = theme.now.ink;
    pen.setLineDash(beside ? [4, 2] : []);
    pen.beginPath();
    for (let i = first; i < curve.to && time[i] <= range.hi; i++) {
      const end = i + 1 < curve.to ? time[i + 1] : range.hi;
      if (i === first) pen.moveTo(x(time[i]), level(high[i]));
      else pen.lineTo(x(time[i]), level(high[i]));
      pen.lineTo(x(end), level(high[i]));
    }
    pen.stroke();
    pen.setLineDash([]);
    pen.restore();
    if (beside) return;
    const prefix = `${view.paired ? "" : view.runPrefix(curve.run)}${several ? `nc${curve.core} ` : ""}`;
    pen.textAlign = "left";
    pen.fillStyle = theme.now.ink;
    pen.fillText(fit(pen, `${prefix}${curve.title}`, left - 12), 9, y + height / 2 - 6);
    pen.fillStyle = theme.now.faint;
    pen.fillText(fit(pen, view.paired ? "A filled, B dashed" : curve.most, left - 12), 9, y + height / 2 + 7);
  });
}

const PAUSE_MS = 150;

/** The curves of a run: of the whole of it, and of a span that somebody looks at closely. */
export class CurveData {
  constructor(source, total, changed) {
    Object.assign(this, { source, total, changed, whole: null, closeUp: null, now: null });
  }

  load() {
    this.source.get("timeline/curves").then((part) => {
      this.whole = this.now = part;
      this.changed();
    }, () => {}); // tracks say that the kernel is silent
  }

  /** Take the finest curve of lo..hi, and request a finer one where it is coarse. */
  look(lo, hi) {
    if (!this.whole) return;
    const holds = (part) => part && part.meta.span[0] <= lo && part.meta.span[1] >= hi;
    this.now = holds(this.closeUp) ? this.closeUp : this.whole;
    const [first, last] = this.now.meta.span;
    clearTimeout(this.timer);
    if (!isCoarse(this.now) || hi - lo > (last - first) / 4) return;
    const more = (hi - lo) / 2;
    const [from, to] = [Math.max(0, Math.floor(lo - more)), Math.min(this.total, Math.ceil(hi + more))];
    this.timer = setTimeout(() => this.source.once(`timeline/curves/${from}/${to}`).then((part) => {
      this.closeUp = this.now = part;
      this.changed();
    }, () => {}), PAUSE_MS); // without a kernel the curve stays as it is
  }

  close() {
    clearTimeout(this.timer);
  }
}

/** Tell whether some curve changes more often than what was sent of it says. */
export function isCoarse({ meta, arrays }) {
  return meta.curves.some((curve) => {
    for (let k = curve.from; k < curve.to; k++) if (arrays.low[k] !== arrays.high[k]) return true;
    return false;
  });
}
