// Tests that an axis stays within its ends, and that zooming and its marks keep their place.

import assert from "node:assert/strict";
import { test } from "node:test";

import { binaryTicks, placeLabels, Range, ticks } from "../../../nki_lab/widgets/static/range.js";

test("zooming keeps the point under the pointer", () => {
  const range = new Range(0, 1000, 1);
  range.zoom(250, 0.5);
  assert.deepEqual([range.lo, range.hi], [125, 625]);
  assert.equal(range.share(250), 0.25);
  range.zoom(250, 0.5);
  assert.equal(range.share(250), 0.25);
});

test("nothing beyond the ends is ever shown", () => {
  const range = new Range(10, 110, 2);
  range.zoom(50, 0.1);
  for (let k = 0; k < 50; k++) range.pan(-0.9);
  assert.equal(range.lo, 10);
  for (let k = 0; k < 50; k++) range.pan(0.9);
  assert.equal(range.hi, 110);
  for (let k = 0; k < 50; k++) range.zoom(109, 1.5);
  assert.ok(range.whole);
});

test("at least the least stays in view", () => {
  const range = new Range(0, 100, 4);
  for (let k = 0; k < 60; k++) range.zoom(30, 0.5);
  assert.equal(range.span, 4);
  assert.ok(range.lo <= 30 && 30 <= range.hi);
  range.set(50, 50.5);
  assert.deepEqual([range.lo, range.hi], [48.25, 52.25]);
  assert.equal(new Range(0, 3, 20).least, 3);
});

test("marks are round and lie in view", () => {
  assert.deepEqual(ticks(0, 27082, 7), [0, 5000, 10000, 15000, 20000, 25000]);
  assert.ok(Object.is(ticks(-1, 3, 4)[1], 0), "no -0");
  assert.deepEqual(binaryTicks(0, 512, 4), [0, 128, 256, 384, 512]);
  assert.deepEqual(binaryTicks(100, 300, 3), [128, 256]);
  assert.deepEqual(ticks(5, 5, 3), []);
});

test("labels of marks touch no other, stay on the axis, and the last one is always there", () => {
  const widthOf = (text) => 6 * text.length;
  assert.deepEqual(placeLabels([[0, "0"], [50, "128"], [100, "256"]], 200, widthOf), [[3, "0"], [53, "128"], [103, "256"]]);
  // At the end it is left of its mark, and one that it would touch is left out.
  assert.deepEqual(placeLabels([[0, "0"], [80, "128"], [100, "256"]], 100, widthOf), [[3, "0"], [79, "256"]]);
  assert.deepEqual(placeLabels([[0, "1000"], [10, "2000"], [90, "3"]], 200, widthOf), [[3, "1000"], [93, "3"]]);
  assert.deepEqual(placeLabels([], 10, widthOf), []);
});
