// Tests the value of a curve at a moment, and that a closer look is requested where it is coarse.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CurveData, isCoarse, partAt, placeCurves, valueText } from "../../../nki_lab/views/timeline/curves.js";
import { Marks } from "../../../nki_lab/views/timeline/marks.js";
import { fieldRows } from "../../../nki_lab/views/timeline/detail.js";
import { idleLabels, pairedOrder, placeLanes } from "../../../nki_lab/views/timeline/draw.js";
import { laneOf } from "../../../nki_lab/views/timeline/arrows.js";

const part = (span, high) => ({
  meta: { span, curves: [{ from: 0, to: 3, unit: "%", title: "SBUF usage", core: 0, run: 0 }] },
  arrays: { time: [0, 10, 20], low: [0, 1.5, 4], high: [0, high, 4] },
});

test("a value holds until the next change", () => {
  const exact = part([0, 100], 1.5);
  const curve = exact.meta.curves[0];
  assert.deepEqual([-1, 0, 9, 10, 19.9, 20, 99].map((t) => partAt(exact.arrays.time, curve, t)), [-1, 0, 0, 1, 1, 2, 2]);
  assert.equal(valueText(exact, curve, 12), "1.5 %");
  assert.equal(valueText(part([0, 100], 3), curve, 12), "1.5 % to 3 %");
});

test("a closer look is asked for once, where what is known is coarse", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const asked = [];
  const answer = (name) => { asked.push(name); return new Promise(() => {}); };
  const data = new CurveData({ once: answer }, 1000, () => {});
  data.look(0, 10); // nothing is known yet
  data.whole = part([0, 1000], 3);
  assert.ok(isCoarse(data.whole) && !isCoarse(part([0, 1000], 1.5)));
  data.look(0, 1000);
  t.mock.timers.tick(1000);
  assert.deepEqual(asked, []);
  data.look(100, 150);
  data.look(100.5, 200.5); // moved on before the pause was over
  t.mock.timers.tick(1000);
  assert.deepEqual(asked, ["timeline/curves/50/251"]);
  data.closeUp = part([50, 251], 1.5);
  data.look(100, 200);
  t.mock.timers.tick(1000);
  assert.equal(data.now, data.closeUp);
  data.look(0, 900);
  assert.equal(data.now, data.whole);
  assert.equal(asked.length, 1);
});

test("two runs may share the places of their curves and stand beside each other by name", () => {
  const curves = [["S", 0, 0], ["P", 0, 0], ["S", 0, 1], ["P", 0, 1]].map(([title, core, run]) => ({ title, core, run }));
  assert.equal(new Set(placeCurves(curves, 0).bands.map((band) => band.y)).size, 4);
  const shared = placeCurves(curves, 0, true).bands.map((band) => band.y);
  assert.deepEqual([shared[0], shared[1]], [shared[2], shared[3]]);
  const tracks = [["qA", "dma"], ["Vector", "vector"], ["qB", "dma"], ["Vector", "vector"]].map(([label, engine]) => ({ label, engine, core: 0 }));
  assert.deepEqual([...pairedOrder(tracks)], [0, 2, 1, 3]);
});

test("every lane has a place of its own within its track, in any order", () => {
  const tracks = [{ label: "a" }, { label: "b" }];
  const { rows, bands, end } = placeLanes(tracks, [[0], [0], [1]], [1, 0]);
  assert.ok(rows[2].y < rows[0].y && rows[0].y + rows[0].height <= rows[1].y && rows[1].y + rows[1].height <= end);
  assert.deepEqual(rows.map((row) => row.track), [0, 0, 1]);
  assert.equal(bands[0].y, rows[0].y);
});

test("lanes that are idle in every run take no place", () => {
  const tracks = [{ label: "a", count: 0 }, { label: "b", count: 2 }, { label: "a", count: 0 }, { label: "b", count: 0 }];
  assert.deepEqual(idleLabels(tracks), ["a"]);
  assert.deepEqual(idleLabels(tracks.map((track) => ({ ...track, count: 0 }))), []);
  const lanes = [[0], [1], [2], [3]];
  const { rows, bands, end } = placeLanes(tracks, lanes, [1, 3]);
  assert.deepEqual(bands.map((band) => band.height > 0), [false, true, false, true]);
  assert.deepEqual(rows.map((row) => row.height > 0), [false, true, false, true]);
  assert.equal(bands[3].y + bands[3].height <= end, true);
  assert.ok(end < placeLanes(tracks, lanes).end);
});

test("the fields of an event have units, and none is zero or said twice", () => {
  const fields = { start_ts: 0, duration_ns: 566, pcore_idx: 0, opcode: "MATMUL", compiler_opcode: "MATMUL", compiler_operands: "x",
    psum_write_bytes: 262144, hbm_read_bytes: 0, throughput: 324435643564.4, is_transpose_mode: false, raw_flops: 16777216 };
  const units = { start_ts: "ns", duration_ns: "ns", psum_write_bytes: "bytes", hbm_read_bytes: "bytes", throughput: "B/s", raw_flops: "flop" };
  assert.deepEqual(fieldRows(fields, units), [["opcode", "MATMUL"], ["start_ts", "0 ns"], ["duration_ns", "566 ns"], ["pcore_idx", "0"],
    ["compiler_operands", "x"], ["psum_write_bytes", "262,144 bytes"], ["throughput", "324.4 GB/s"], ["raw_flops", "16,777,216 flop"]]);
});

test("marks keep the order of time, and one that is met again goes away", () => {
  const marks = new Marks();
  marks.toggle(50, 2);
  marks.toggle(10, 2);
  marks.toggle(90, 2);
  assert.deepEqual(marks.spans().map(([a, b]) => [a.name, b.name, b.at - a.at]), [["2", "1", 40], ["1", "3", 40]]);
  marks.toggle(51, 2);
  assert.deepEqual(marks.marks.map((mark) => mark.at), [10, 90]);
});

test("the lane of an event is found among empty lanes", () => {
  const lanes = [{ lo: 0, hi: 0 }, { lo: 0, hi: 3 }, { lo: 3, hi: 3 }, { lo: 3, hi: 4 }, { lo: 4, hi: 4 }];
  assert.deepEqual([0, 2, 3].map((i) => laneOf({ lanes }, i)), [1, 1, 3]);
});
