// Tests which bytes a box covers, and that all of it is drawn.

import assert from "node:assert/strict";
import { test } from "node:test";

import { boxCovers, boxParts, slicesAt } from "../../../nki_lab/views/layout/boxes.js";
import { tileAt } from "../../../nki_lab/views/memory/tiles.js";

// Rows 2, 5, 8; elements of 4 bytes at bytes 8, 24, 40.
const BOX = Int32Array.of(2, 3, 3, 8, 3, 16, 4);

test("a box covers its elements and nothing between them", () => {
  for (let row = 0; row < 12; row++) {
    for (let byte = 0; byte < 64; byte++) {
      const expected = [2, 5, 8].includes(row) && [8, 24, 40].some((b) => b <= byte && byte < b + 4);
      assert.equal(boxCovers(BOX, 0, row, byte), expected, `row ${row}, byte ${byte}`);
    }
  }
});

test("all slices at a byte are found", () => {
  const boxes = Int32Array.from([0, 4, 1, 0, 8, 4, 4, ...BOX, 2, 1, 1, 8, 1, 4, 4]);
  const slices = [{ boxes: [0, 1] }, { boxes: [1, 2] }, { boxes: [2, 3] }];
  assert.deepEqual(slicesAt(slices, boxes, 2, 9), [0, 1, 2]);
  assert.deepEqual(slicesAt(slices, boxes, 5, 9), [1]);
  assert.deepEqual(slicesAt(slices, boxes, 11, 9), []);
});

test("elements are drawn apart where there is room, else as strongly as they are dense", () => {
  const parts = (across, down) => {
    const found = [];
    boxParts(BOX, 0, across, down, (...part) => found.push(part));
    return found;
  };
  assert.equal(parts(1, 4).length, 9);
  assert.deepEqual(parts(1, 4)[4], [24, 20, 4, 4, 1]);
  assert.deepEqual(parts(0.1, 0.5), [[0.8, 1, 36 * 0.1, 3.5, (4 / 16) * (1 / 3)]]);
  const whole = [];
  boxParts(Int32Array.of(0, 128, 1, 0, 512, 4, 4), 0, 0.25, 2, (...part) => whole.push(part));
  assert.deepEqual(whole, [[0, 0, 512, 256, 1]]);
});

test("the tile at an instruction and byte is found", () => {
  const tiles = {
    count: 2, first: [0, 2], last: [3, 5], address: [256, 256], size: [128, 32], partition: [0, 64], partitions: [64, 32],
  };
  assert.equal(tileAt(tiles, -1, 1, 300), 0);
  assert.equal(tileAt(tiles, -1, 3, 270), 1, "the later one lies on top");
  assert.equal(tileAt(tiles, 10, 3, 270), 0);
  assert.equal(tileAt(tiles, 10, 4, 270), -1);
  assert.equal(tileAt(tiles, -1, 5, 300), -1);
});
