/**
 * How are numbers of a run written?  As in the texts of the kernel: 4.017 us, 12.3 %.
 */

export function time(ns: number | null): string {
  if (ns === null) {
    return 'not timed';
  }
  const [value, unit] = ns < 1e6 ? [ns / 1e3, 'us'] : [ns / 1e6, 'ms'];
  return `${value.toLocaleString('en', { minimumFractionDigits: 3, maximumFractionDigits: 3 })} ${unit}`;
}

/** Returns a share with one place, which is never rounded up to all. */
export function share(part: number, whole: number): string {
  const percent = Math.floor((1000 * part) / whole) / 10;
  return `${percent.toFixed(1)} %`;
}

export function bytes(number: number): string {
  return number.toLocaleString('en');
}
