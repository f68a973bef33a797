// Tests which lines each filter lists, and that names of tensors are told from other text.

import assert from "node:assert/strict";
import { test } from "node:test";

import { declarations, GAP, partsOf, rewritten, rowsOf } from "../../../nki_lab/views/ir/rows.js";

const fresh = [0, 0, 0, 0, 1, 0, 0, 0, 0];
const taken = [[-1, "first"], [4, "old 4"], [4, "also 4"]];
const engine = [0, 1, 2, 1, 1, 0, 2, 0, 0];

test("everything is listed, and what was taken away below the line it stood below", () => {
  assert.deepEqual(rowsOf(fresh, taken, engine), [-1, 0, 1, 2, 3, 4, -2, -3, 5, 6, 7, 8]);
  assert.deepEqual(rowsOf(fresh, taken, engine, { removed: false }), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
});

test("differences are listed with what is around them, the rest is a gap", () => {
  assert.deepEqual(rowsOf(fresh, taken, engine, { changes: true }), [-1, 0, 1, 2, 3, 4, -2, -3, 5, 6, GAP]);
  assert.deepEqual(rowsOf([0, 0, 0], [], [0, 0, 0], { changes: true }), [GAP]);
});

test("lines of one engine are listed without gaps", () => {
  assert.deepEqual(rowsOf(fresh, taken, engine, { wanted: 1 }), [1, 3, 4]);
  assert.deepEqual(rowsOf(fresh, taken, engine, { wanted: 2, changes: true }), [2, 6]);
});

test("a line falls into texts and tensors, and nothing of it is lost", () => {
  const line = '#2 nc_matmul(dst=%acc.1[0:128], stationary=%"odd \\" name", moving=%größe, x="50 % of") on tensor';
  const parts = partsOf(line);
  assert.equal(parts.map((p) => p.tensor ?? p).join(""), line);
  assert.deepEqual(parts.filter((p) => p.tensor).map((p) => p.tensor), ["%acc.1", '%"odd \\" name"', "%größe"]);
});

test("what is new in a line and what is gone is told by token, and nothing of either text is lost", () => {
  const before = "  nc_matmul(dst=%acc.3, stationary=%a.12) on tensor";
  const after = "  #53 nc_matmul(dst=%acc.4, stationary=%a.12) on tensor waits #12, #40";
  const parts = rewritten(before, after);
  const text = (kind) => parts.filter(([, k]) => k === 0 || k === kind).map(([part]) => part).join("");
  assert.equal(text(-1), before);
  assert.equal(text(1), after);
  assert.deepEqual(parts.filter(([, kind]) => kind === -1), [["%acc.3", -1]]);
  assert.deepEqual(parts.filter(([, kind]) => kind === 1).map(([part]) => part), ["#53 ", "%acc.4", " waits #12, #40"]);
  assert.deepEqual(rewritten("same", "same"), [["same", 0]]);
});

test("the line of a tensor's declaration is found", () => {
  const lines = ["nkir 1", "  storage %x: float32[4x8] in shared_hbm, input", '  storage %"a b": float32[4x8] in sbuf', "  copy(dst=%x)"];
  assert.deepEqual([...declarations(lines)], [["%x", 1], ['%"a b"', 2]]);
});
