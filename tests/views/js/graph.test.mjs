// Tests that edges go through their points, and that everything that depends on a node is found.

import assert from "node:assert/strict";
import { test } from "node:test";

import { pathOf, reach } from "../../../nki_lab/views/graph/view.js";

const edges = [[0, 1], [1, 2], [0, 3], [3, 2], [2, 4], [5, 4], [4, 2]].map(([from, to]) => ({ from, to }));

test("what a node depends on, and what depends on it, is found, circles included", () => {
  assert.deepEqual([...reach(edges, 0, true)].sort(), [1, 2, 3, 4]);
  assert.deepEqual([...reach(edges, 3, false)].sort(), [0]);
  assert.deepEqual([...reach(edges, 2, false)].sort(), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([...reach(edges, 5, true)].sort(), [2, 4]);
});

test("a path begins and ends where its edge does and passes its points", () => {
  const path = pathOf([[0, 5], [10, 20], [30, 20], [40, 8]]);
  assert.equal(path, "M 0 5 C 5 5 5 20 10 20 L 30 20 C 35 20 35 8 40 8");
  assert.equal(pathOf([[5, 0], [20, 10]], true), "M 5 0 C 5 5 20 5 20 10");
});
