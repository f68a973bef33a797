// The work of the Tensor engine's array at each step: which multiplier works on what.  Pure functions, without a browser.
//
// stationary [K, M] is loaded first, a fixed number of columns per step; then column n of moving [K, N] enters row k of the array at
// step load + n + k, and meets column m of the array m steps later.  A sum leaves column m at the bottom after row K - 1.

/** Return how many pairs 0 <= i < a, 0 <= j < b have i + j <= s. */
export function pairsUpTo(a, b, s) {
  const triangle = (n) => (n < 0 ? 0 : ((n + 1) * (n + 2)) / 2);
  return triangle(s) - triangle(s - a) - triangle(s - b) + triangle(s - a - b);
}

/** The steps of one product. */
export class Steps {
  constructor([k, m, n], columnsPerStep) {
    Object.assign(this, { k, m, n, columns: Math.max(1, columnsPerStep) });
    this.load = Math.ceil(m / this.columns);
    this.last = this.load + n + m + k - 2;
  }

  /** Return the columns of stationary that are in the array. */
  loaded(t) {
    return Math.min(this.m, Math.max(0, t) * this.columns);
  }

  /** Return the column of moving that multiplier (row, column) works on, or -1. */
  at(row, column, t) {
    const n = t - this.load - row - column - 1;
    return n >= 0 && n < this.n ? n : -1;
  }

  /** Return how many multipliers work. */
  busy(t) {
    const s = t - this.load - 1;
    return pairsUpTo(this.k, this.m, s) - pairsUpTo(this.k, this.m, s - this.n);
  }

  /** Return whether result (m, n) is complete. */
  done(m, n, t) {
    return n + m <= t - this.load - this.k;
  }

  /** Return how many results are complete. */
  finished(t) {
    return pairsUpTo(this.m, this.n, t - this.load - this.k);
  }

  /** Say what happens at a step. */
  phase(t) {
    if (t < this.load) return "load";
    if (t >= this.last) return "end";
    return t < this.load + this.n ? "stream" : "drain";
  }
}
