// The part of an axis that is in view: zooming and panning, without a browser.

export class Range {
  /** An axis from `first` to `last`, of which at least `least` stays in view. */
  constructor(first, last, least = 1) {
    this.first = first;
    this.last = last;
    this.least = Math.min(least, last - first);
    this.reset();
  }

  get span() {
    return this.hi - this.lo;
  }

  get whole() {
    return this.lo === this.first && this.hi === this.last;
  }

  reset() {
    this.set(this.first, this.last);
  }

  /** Show lo..hi, moved and narrowed so that it lies on the axis. */
  set(lo, hi) {
    const span = Math.min(Math.max(hi - lo, this.least), this.last - this.first);
    const middle = (lo + hi) / 2;
    const wanted = hi - lo < this.least ? middle - span / 2 : lo;
    this.lo = Math.min(Math.max(wanted, this.first), this.last - span);
    this.hi = this.lo + span;
    // Sums of fractions miss the end by a hair: the whole axis is the whole axis.
    if (span === this.last - this.first) this.hi = this.last;
  }

  /** Show `factor` times as much; the point `at` stays where it is. */
  zoom(at, factor) {
    const span = Math.min(Math.max(this.span * factor, this.least), this.last - this.first);
    const share = this.span > 0 ? (at - this.lo) / this.span : 0.5;
    this.set(at - share * span, at - share * span + span);
  }

  /** Move by a share of what is in view. */
  pan(share) {
    const by = share * this.span;
    this.set(this.lo + by, this.hi + by);
  }

  /** Return the point at a share of what is in view. */
  at(share) {
    return this.lo + share * this.span;
  }

  /** Return where a point lies, as a share of what is in view. */
  share(point) {
    return (point - this.lo) / this.span;
  }
}

/** Return round numbers in lo..hi, about `count` of them. */
export function ticks(lo, hi, count) {
  const raw = (hi - lo) / Math.max(1, count);
  if (!(raw > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; k++) found.push(k * step + 0); // + 0: no -0
  return found;
}

/**
 * Return where the labels of marks stand on an axis that ends at `end`, as [left, text].
 *
 * `marks` are [x, text] from left to right; a label is right of its mark, or left of it where it would leave the axis.
 * The last mark always has its label; of the others those have one that touch no other.
 */
export function placeLabels(marks, end, widthOf) {
  const placed = marks.map(([x, text]) => {
    const wide = widthOf(text);
    const left = x + 3 + wide <= end ? x + 3 : x - 3 - wide;
    return { left, right: left + wide, text };
  });
  const last = placed.pop();
  let free = -Infinity;
  const kept = placed.filter(({ left, right }) => {
    if (left < free || right + 6 > last.left) return false;
    free = right + 6;
    return true;
  });
  return (last ? [...kept, last] : kept).map(({ left, text }) => [left, text]);
}

/** Return multiples of powers of two in lo..hi, about `count` of them, for bytes and partitions. */
export function binaryTicks(lo, hi, count) {
  const raw = (hi - lo) / Math.max(1, count);
  if (!(raw > 0)) return [];
  const step = Math.max(1, 2 ** Math.ceil(Math.log2(raw)));
  const found = [];
  for (let v = Math.ceil(lo / step) * step; v <= hi; v += step) found.push(v);
  return found;
}
