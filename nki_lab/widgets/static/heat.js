// The colour of a value, and the part of a tensor in the window.  Pure functions, without a browser.

/** Return [r, g, b] for t in -1..1; `stops` are five colours #rrggbb from the lowest over zero to the highest. */
export function heatColour(stops, t) {
  const at = (Math.min(1, Math.max(-1, t)) + 1) * ((stops.length - 1) / 2);
  const k = Math.min(stops.length - 2, Math.floor(at));
  const part = (colour, n) => parseInt(colour.slice(1 + 2 * n, 3 + 2 * n), 16);
  return [0, 1, 2].map((n) => Math.round(part(stops[k], n) + (at - k) * (part(stops[k + 1], n) - part(stops[k], n))));
}

/** Return [first, count] of the rows or bytes that indices of outer axes leave; an index that is not given ends it. */
export function windowOf(outer, indices, total) {
  let first = 0;
  let count = total;
  for (let k = 0; k < outer.length; k++) {
    if (indices[k] === null || indices[k] === undefined) break;
    first += indices[k] * outer[k].step;
    count = outer[k].step;
  }
  return [first, count];
}

/** Return the index of an element in a tensor of this shape, from its number in row-major order. */
export function unravel(shape, element) {
  const found = new Array(shape.length);
  let rest = element;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    found[axis] = rest % shape[axis];
    rest = Math.floor(rest / shape[axis]);
  }
  return found;
}

/**
 * Return the first index into a view that gives an element, or null; axes that repeat (stride 0) give "*".
 *
 * A view whose strides overlap may have others as well.
 */
export function viewIndex({ shape, strides, offset }, element) {
  let start = offset;
  shape.forEach((n, k) => { if (strides[k] < 0) start += (n - 1) * strides[k]; });
  let rest = element - start;
  if (rest < 0) return null;
  const found = new Array(shape.length).fill(0);
  const order = [...shape.keys()].sort((a, b) => Math.abs(strides[b]) - Math.abs(strides[a]));
  for (const k of order) {
    const step = Math.abs(strides[k]);
    if (step === 0) {
      if (shape[k] > 1) found[k] = "*";
      continue;
    }
    const n = Math.min(shape[k] - 1, Math.floor(rest / step));
    found[k] = strides[k] < 0 ? shape[k] - 1 - n : n;
    rest -= n * step;
  }
  return rest === 0 ? found : null;
}

/** Write a value as a person reads it. */
export function valueText(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(4) : String(Number(value.toPrecision(6)));
}
