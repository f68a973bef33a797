// Writes times, sizes and shares, the same way everywhere.

export function number(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** Return a time in ns with the unit that suits it; `span` is the length of what is in view. */
export function time(ns, span = ns) {
  const size = Math.abs(span);
  if (size < 2000) return `${trim(ns, 0)} ns`;
  if (size < 2e6) return `${trim(ns / 1e3, size < 2e4 ? 3 : size < 2e5 ? 2 : 1)} us`;
  if (size < 2e9) return `${trim(ns / 1e6, size < 2e7 ? 3 : 2)} ms`;
  return `${trim(ns / 1e9, 3)} s`;
}

/** Return a duration with three digits behind the point where it has a fraction. */
export function duration(ns) {
  return ns < 1000 ? `${number(ns)} ns` : `${trim(ns / 1e3, 3)} us`;
}

export function bytes(count) {
  for (const [unit, scale] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (count >= scale) return `${trim(count / scale, 2)} ${unit}`;
  }
  return `${number(count)} B`;
}

export function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function trim(value, digits) {
  return value.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: digits });
}
