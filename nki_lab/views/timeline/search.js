// Finds the events in a span of time.  Pure functions over columns, without a browser.
//
// Events of one lane are the positions [lo, hi) of `start` and `duration`; they are sorted by start
// and do not overlap, so their ends are sorted too.

/** Return the first event that ends after `time`. */
export function firstEndingAfter(start, duration, lo, hi, time) {
  let a = lo;
  let b = hi;
  while (a < b) {
    const m = (a + b) >> 1;
    if (start[m] + duration[m] > time) b = m;
    else a = m + 1;
  }
  return a;
}

/** Return the first event that starts at `time` or later. */
export function firstStartingAt(start, lo, hi, time) {
  let a = lo;
  let b = hi;
  while (a < b) {
    const m = (a + b) >> 1;
    if (start[m] >= time) b = m;
    else a = m + 1;
  }
  return a;
}

/** Return [first, end) of the events that are under way at some moment of t0 <= t < t1. */
export function overlapping(start, duration, lo, hi, t0, t1) {
  const first = firstEndingAfter(start, duration, lo, hi, t0);
  return [first, Math.max(first, firstStartingAt(start, first, hi, t1))];
}

/** Return the event at `time`, or -1.  An event without duration is met at its start. */
export function eventAt(start, duration, lo, hi, time, tolerance = 0) {
  const i = firstEndingAfter(start, duration, lo, hi, time - tolerance);
  return i < hi && start[i] <= time + tolerance ? i : -1;
}

/** Like firstEndingAfter, but searching upwards from `from`: cheap when the answer is near. */
export function gallop(start, duration, from, hi, time) {
  let a = from;
  let step = 1;
  if (a >= hi || start[a] + duration[a] > time) return a;
  while (a + step < hi && start[a + step] + duration[a + step] <= time) {
    a += step;
    step *= 2;
  }
  return firstEndingAfter(start, duration, a + 1, Math.min(a + step + 1, hi), time);
}

/** Return sums of the durations of all events before each one. */
export function busyBefore(duration) {
  const sums = new Float64Array(duration.length + 1);
  for (let i = 0; i < duration.length; i++) sums[i + 1] = sums[i] + duration[i];
  return sums;
}

/** Return the time a lane is busy in t0 <= t < t1, exactly. */
export function busyTime(start, duration, sums, lo, hi, t0, t1) {
  const [a, b] = overlapping(start, duration, lo, hi, t0, t1);
  if (a === b) return 0;
  const before = Math.max(0, t0 - start[a]);
  const after = Math.max(0, start[b - 1] + duration[b - 1] - t1);
  return sums[b] - sums[a] - before - after;
}

/**
 * Walk the part t0..t1 of a lane that is drawn on a number of columns.
 *
 * `wide(event, left, right)` is called for each event at least 1.5 columns wide, and
 * `narrow(column, event, share, next)` for each column in which only narrower ones lie, with the first
 * of them, the share of the column they fill, exactly, and the first event past it.  Costs grow with
 * columns, not with events.
 */
export function walk(lane, columns, t0, t1, start, duration, sums, narrow, wide) {
  const scale = columns / (t1 - t0);
  let i = firstEndingAfter(start, duration, lane.lo, lane.hi, t0);
  let last = -1;
  while (i < lane.hi) {
    const left = (start[i] - t0) * scale;
    const right = left + duration[i] * scale;
    if (left >= columns) return;
    if (right - left >= 1.5) {
      wide(i, Math.max(0, left), Math.min(columns, right));
      i++;
      continue;
    }
    // An event that reaches into the next column is met again there, so that it counts in both.
    const column = Math.max(Math.floor(left), last + 1);
    if (column >= columns) return;
    last = column;
    const ta = t0 + column / scale;
    const tb = t0 + (column + 1) / scale;
    const next = gallop(start, duration, i, lane.hi, tb);
    let busy = sums[next] - sums[i] - Math.max(0, ta - start[i]);
    if (next < lane.hi) busy += Math.max(0, tb - start[next]);
    narrow(column, i, Math.min(1, Math.max(0, busy / (tb - ta))), next);
    i = next;
  }
}
