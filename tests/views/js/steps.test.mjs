// Tests that the next step is the right one, and that a block of a picture is what it stands for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { blockOf, cellText, factsOf } from "../../../nki_lab/views/stepper/grid.js";
import { atLine, findStep, linesRun, touches } from "../../../nki_lab/views/stepper/search.js";

// Two instructions, three passes of a loop of two, one instruction.
const order = Uint8Array.of(0, 1, 2, 3, 2, 3, 2, 3, 4);
const line = Uint8Array.of(1, 1, 2, 3, 0);
const columns = {
  touchPosition: Uint8Array.of(0, 1, 2, 2, 3, 4), touchTensor: Uint8Array.of(5, 6, 5, 6, 6, 6), touchWrites: Uint8Array.of(1, 1, 0, 1, 0, 0),
};

test("the next and the previous instruction of a line are found", () => {
  const fits = atLine(line, 2);
  assert.deepEqual([0, 2, 4, 6].map((from) => findStep(order, fits, from)), [2, 4, 6, -1]);
  assert.deepEqual([8, 6, 2].map((from) => findStep(order, fits, from, -1)), [6, 4, -1]);
});

test("writes and touches of a tensor are told apart", () => {
  const writes = touches(columns, 6, true);
  assert.deepEqual([...order].map(writes), [false, true, true, false, true, false, true, false, false]);
  assert.equal(findStep(order, writes, 6), -1);
  assert.equal(findStep(order, touches(columns, 6, false), 6), 7);
  assert.equal(findStep(order, touches(columns, 9, false), 0), -1);
});

test("lines are counted by what ran of them", () => {
  assert.deepEqual(linesRun(order, line, 3), [[1, 2], [2, 3], [3, 3]]);
  assert.deepEqual(linesRun(order, Uint8Array.of(0, 0, 0, 0, 0), 0), []);
});

test("blocks cover everything once", () => {
  for (const [count, blocks] of [[300, 128], [7, 7], [513, 64]]) {
    let at = 0;
    for (let k = 0; k < blocks; k++) {
      const [first, end] = blockOf(k, count, blocks);
      assert.equal(first, at);
      assert.ok(end > first);
      at = end;
    }
    assert.equal(at, count);
  }
});

test("what is no number is written as such", () => {
  assert.deepEqual([cellText(0, 1), cellText(1, 2), cellText(-1, 2), cellText(-0.5, 0), cellText(1234, 0)], ["NaN", "Inf", "−Inf", "-0.5", "1,234"]);
  assert.deepEqual(factsOf({ least: -1, most: 2.5, nan: 0, infinite: 0 }), ["-1 to 2.5", "no NaN, no Inf"]);
  assert.deepEqual(factsOf({ least: 0, most: 1, nan: 0, infinite: 0, unwritten: 7 })[1], "no NaN, no Inf, 7 not written yet");
  assert.equal(cellText(0, 4), "·");
  assert.deepEqual(factsOf({ least: null, most: null, nan: 2000, infinite: 1 }), ["no finite value", "2,000 NaN, 1 Inf"]);
});
