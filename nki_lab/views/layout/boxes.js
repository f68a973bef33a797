// Finds the slices that cover a byte of a tensor.  Pure functions over the boxes of `layout_model.py`.
//
// A box is seven numbers: row, rows, row step, first byte, elements, step and size of one in bytes.

export const FIELDS = 7;

/** Tell whether box `k` holds a byte of a row. */
export function boxCovers(boxes, k, row, byte) {
  const [r0, rows, rowStep, b0, count, step, size] = boxes.subarray(k * FIELDS, (k + 1) * FIELDS);
  const r = row - r0;
  if (r < 0 || r % rowStep || r / rowStep >= rows) return false;
  const b = byte - b0;
  return b >= 0 && Math.floor(b / step) < count + (step === 0 ? 1 : 0) && b % step < size;
}

/** Return the numbers of the slices that hold a byte of a row. */
export function slicesAt(slices, boxes, row, byte) {
  return slices.flatMap(({ boxes: [from, to] }, number) => {
    for (let k = from; k < to; k++) if (boxCovers(boxes, k, row, byte)) return [number];
    return [];
  });
}

/**
 * Call `paint(x, y, width, height, density)` for the parts of a box that are drawn apart.
 *
 * `across` and `down` are pixels per byte and per row.  Steps too narrow to be told apart are one part,
 * whose density is the share of it that is covered.
 */
export function boxParts(boxes, k, across, down, paint) {
  const [r0, rows, rowStep, b0, count, step, size] = boxes.subarray(k * FIELDS, (k + 1) * FIELDS);
  const dense = step <= size || count === 1;
  const denseRows = rowStep === 1 || rows === 1;
  const width = (dense ? count * size : (count - 1) * step + size) * across;
  const height = (denseRows ? rows : (rows - 1) * rowStep + 1) * down;
  const apartX = !dense && step * across >= 4;
  const apartY = !denseRows && rowStep * down >= 4;
  const density = (dense || apartX ? 1 : size / step) * (denseRows || apartY ? 1 : 1 / rowStep);
  const xs = apartX ? Array.from({ length: count }, (_, n) => b0 + n * step) : [b0];
  const ys = apartY ? Array.from({ length: rows }, (_, n) => r0 + n * rowStep) : [r0];
  for (const y of ys) {
    for (const x of xs) {
      paint(x * across, y * down, apartX ? size * across : width, apartY ? down : height, density);
    }
  }
}
