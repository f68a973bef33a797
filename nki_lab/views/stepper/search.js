// Finds an executed instruction by line, tensor or number.  Pure functions over columns, without a browser.
//
// `order` holds per executed instruction its position in the program, `line` per position a number into the
// author's lines (0 for none), and the touches which tensor each position reads or writes.

/** Return the next executed instruction after `from` (before it, if `by` is -1) whose position fits, or -1. */
export function findStep(order, fits, from, by = 1) {
  for (let n = from + by; n >= 0 && n < order.length; n += by) if (fits(order[n])) return n;
  return -1;
}

/** Return a test of positions: was it written at this line? */
export function atLine(line, code) {
  return (position) => line[position] === code;
}

/** Return a test of positions: does it touch this tensor, or write it? */
export function touches(columns, tensor, writesOnly) {
  const found = new Set();
  for (let k = 0; k < columns.touchPosition.length; k++) {
    if (columns.touchTensor[k] === tensor && (columns.touchWrites[k] || !writesOnly)) found.add(columns.touchPosition[k]);
  }
  return (position) => found.has(position);
}

/** Return, per line, how many executed instructions it has; only those that have any. */
export function linesRun(order, line, lines) {
  const counts = new Array(lines + 1).fill(0);
  for (let n = 0; n < order.length; n++) counts[line[order[n]] || 0]++;
  return counts.flatMap((count, code) => (code && count ? [[code, count]] : []));
}
