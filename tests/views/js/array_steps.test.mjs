// Tests that the closed formulas for the array agree with counting every multiplier.

import assert from "node:assert/strict";
import { test } from "node:test";

import { pairsUpTo, Steps } from "../../../nki_lab/views/array/steps.js";

test("pairs are counted as a loop counts them", () => {
  for (const [a, b] of [[1, 1], [3, 5], [7, 2], [4, 4]]) {
    for (let s = -2; s < a + b + 2; s++) {
      let expected = 0;
      for (let i = 0; i < a; i++) for (let j = 0; j < b; j++) expected += i + j <= s ? 1 : 0;
      assert.equal(pairsUpTo(a, b, s), expected, `${a} x ${b} up to ${s}`);
    }
  }
});

for (const sizes of [[3, 4, 6], [5, 2, 1], [1, 1, 9], [4, 7, 3]]) {
  test(`K, M, N = ${sizes}: every product is made once, in order, and sums are complete when they have left`, () => {
    const steps = new Steps(sizes, 4);
    const [k, m, n] = sizes;
    const met = new Map();
    for (let t = 0; t <= steps.last; t++) {
      let busy = 0;
      for (let row = 0; row < k; row++) {
        for (let column = 0; column < m; column++) {
          const at = steps.at(row, column, t);
          if (at < 0) continue;
          busy++;
          assert.ok(steps.loaded(t) === m, "nothing is multiplied before stationary is loaded");
          const key = `${row},${column},${at}`;
          assert.ok(!met.has(key), `${key} twice`);
          met.set(key, t);
        }
      }
      assert.equal(steps.busy(t), busy, `step ${t}`);
      let finished = 0;
      for (let column = 0; column < m; column++) {
        for (let out = 0; out < n; out++) {
          const complete = Array.from({ length: k }, (_, row) => met.get(`${row},${column},${out}`)).every((when) => when !== undefined && when < t + 1);
          assert.equal(steps.done(column, out, t), complete, `sum ${column}, ${out} at ${t}`);
          finished += complete ? 1 : 0;
        }
      }
      assert.equal(steps.finished(t), finished);
    }
    assert.equal(met.size, k * m * n);
    assert.equal(steps.finished(steps.last), m * n);
    assert.ok(steps.finished(steps.last - 1) < m * n, "the last step is needed");
    assert.equal(steps.phase(steps.last), "end");
  });
}

test("columns of stationary are loaded so many a step", () => {
  const steps = new Steps([8, 10, 3], 4);
  assert.deepEqual([0, 1, 2, 3, 9].map((t) => steps.loaded(t)), [0, 4, 8, 10, 10]);
  assert.equal(steps.phase(2), "load");
  assert.equal(steps.phase(3), "stream");
});
