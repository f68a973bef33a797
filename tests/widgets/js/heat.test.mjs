// Tests that colours follow values, and that indices are those of row-major order and of strides.

import assert from "node:assert/strict";
import { test } from "node:test";

import { heatColour, unravel, valueText, viewIndex, windowOf } from "../../../nki_lab/widgets/static/heat.js";

const STOPS = ["#0000ff", "#8080ff", "#ffffff", "#ff8080", "#ff0000"];

test("colours run from the lowest over zero to the highest", () => {
  assert.deepEqual(heatColour(STOPS, -1), [0, 0, 255]);
  assert.deepEqual(heatColour(STOPS, 0), [255, 255, 255]);
  assert.deepEqual(heatColour(STOPS, 1), [255, 0, 0]);
  assert.deepEqual(heatColour(STOPS, 7), [255, 0, 0]);
  assert.deepEqual(heatColour(STOPS, 0.25), [255, 192, 192]);
});

test("an element's number is unravelled in row-major order", () => {
  const shape = [3, 4, 5];
  let number = 0;
  for (let a = 0; a < 3; a++) for (let b = 0; b < 4; b++) for (let c = 0; c < 5; c++) assert.deepEqual(unravel(shape, number++), [a, b, c]);
});

/** Return every index of a view with the element it gives, by walking all of them. */
function walked({ shape, strides, offset }) {
  const size = shape.reduce((a, b) => a * b, 1);
  return Array.from({ length: size }, (_, n) => {
    const index = unravel(shape, n);
    return { index, element: index.reduce((sum, i, k) => sum + i * strides[k], offset) };
  });
}

for (const [name, view] of Object.entries({
  "a slice": { shape: [4, 6], strides: [32, 1], offset: 70 },
  "every third element": { shape: [4, 6], strides: [32, 3], offset: 1 },
  "axes exchanged": { shape: [4, 2, 3], strides: [32, 1, 8], offset: 5 },
  "a row backwards": { shape: [4, 6], strides: [32, -2], offset: 21 },
  "a broadcast row": { shape: [4, 6], strides: [0, 1], offset: 40 },
})) {
  test(`the index into ${name} is found from the element`, () => {
    const all = walked(view);
    const elements = new Set(all.map(({ element }) => element));
    for (const { index, element } of all) {
      const found = viewIndex(view, element);
      found.forEach((i, k) => assert.ok(i === "*" ? view.strides[k] === 0 : i === index[k], `${found} for ${index}`));
    }
    for (let element = 0; element < 200; element++) {
      assert.equal(viewIndex(view, element) !== null, elements.has(element), `element ${element}`);
    }
  });
}

test("indices of outer axes leave a window, up to the first that is not given", () => {
  const outer = [{ step: 12 }, { step: 4 }];
  assert.deepEqual(windowOf(outer, [null, 2], 60), [0, 60]);
  assert.deepEqual(windowOf(outer, [3, null], 60), [36, 12]);
  assert.deepEqual(windowOf(outer, [3, 2], 60), [44, 4]);
  assert.deepEqual(windowOf([], [], 60), [0, 60]);
});

test("values are written as a person reads them", () => {
  assert.deepEqual([1, -1234567, 0.5, 1 / 3, 1.5e-7, -2.25e9 - 0.5].map(valueText),
    ["1", "-1,234,567", "0.5", "0.333333", "1.5000e-7", "-2.2500e+9"]);
});
