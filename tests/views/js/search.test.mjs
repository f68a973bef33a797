// Tests that the search for events in a span of time finds exactly those that a plain loop finds.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  busyBefore, busyTime, eventAt, firstEndingAfter, firstStartingAt, gallop, overlapping, walk,
} from "../../../nki_lab/views/timeline/search.js";

let seed = 12345;
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
}

/** Return a lane of events that do not overlap, some of them without duration, some back to back. */
function lane(count) {
  const start = new Uint32Array(count);
  const duration = new Uint32Array(count);
  let at = random(5);
  for (let i = 0; i < count; i++) {
    start[i] = at;
    duration[i] = random(4) ? random(9) : 0;
    at += duration[i] + (random(3) ? random(6) : 0);
  }
  return { start, duration, end: at };
}

test("every event of a span is found, and no other", () => {
  for (let round = 0; round < 300; round++) {
    const { start, duration, end } = lane(random(40));
    for (let k = 0; k < 20; k++) {
      const t0 = random(end + 4) - 2;
      const t1 = t0 + 1 + random(20);
      const [a, b] = overlapping(start, duration, 0, start.length, t0, t1);
      const expected = [...start.keys()].filter((i) => start[i] + duration[i] > t0 && start[i] < t1);
      assert.deepEqual([...start.keys()].slice(a, b), expected);
      const first = firstStartingAt(start, 0, start.length, t1);
      assert.ok(first === start.length || start[first] >= t1);
      assert.ok(first === 0 || start[first - 1] < t1);
    }
  }
});

test("searching upwards gives what searching everywhere gives", () => {
  for (let round = 0; round < 300; round++) {
    const { start, duration, end } = lane(1 + random(60));
    const count = start.length;
    for (let from = 0; from < count; from += 1 + random(5)) {
      const time = start[from] + random(end + 3);
      const expected = Math.max(from, firstEndingAfter(start, duration, 0, count, time));
      assert.equal(gallop(start, duration, from, count, time), expected);
    }
  }
});

test("busy time is that of counting every tick", () => {
  for (let round = 0; round < 200; round++) {
    const { start, duration, end } = lane(random(30));
    const sums = busyBefore(duration);
    const t0 = random(end + 3);
    const t1 = t0 + 1 + random(30);
    let expected = 0;
    for (let t = t0; t < t1; t++) {
      if ([...start.keys()].some((i) => start[i] <= t && t < start[i] + duration[i])) expected++;
    }
    assert.equal(busyTime(start, duration, sums, 0, start.length, t0, t1), expected);
  }
});

test("the event under a point is found, also one without duration", () => {
  const start = Uint32Array.of(10, 20, 20, 40);
  const duration = Uint32Array.of(10, 0, 5, 2);
  assert.equal(eventAt(start, duration, 0, 4, 9), -1);
  assert.equal(eventAt(start, duration, 0, 4, 10), 0);
  assert.equal(eventAt(start, duration, 0, 4, 19.9), 0);
  assert.equal(eventAt(start, duration, 0, 4, 22), 2);
  assert.equal(eventAt(start, duration, 0, 4, 30), -1);
  assert.equal(eventAt(start, duration, 0, 4, 39, 1.5), 3);
});

test("columns show the exact share of time their narrow events fill", () => {
  for (let round = 0; round < 200; round++) {
    const { start, duration, end } = lane(5 + random(300));
    const sums = busyBefore(duration);
    const columns = 7 + random(40);
    const t0 = random(Math.floor(end / 2));
    const t1 = t0 + 1 + random(end - t0);
    const width = (t1 - t0) / columns;
    const shares = new Float64Array(columns);
    const wide = [];
    walk({ lo: 0, hi: start.length }, columns, t0, t1, start, duration, sums,
      (column, i, share) => { shares[column] = share; }, (i, a, b) => wide.push([i, a, b]));
    // Every event wider than a column and a half is drawn by itself, where it is.
    const expected = [...start.keys()].filter(
      (i) => duration[i] / width >= 1.5 && start[i] + duration[i] > t0 && start[i] < t1);
    assert.deepEqual(wide.map(([i]) => i), expected);
    for (const [i, a, b] of wide) {
      assert.ok(Math.abs(a - Math.max(0, (start[i] - t0) / width)) < 1e-6);
      assert.ok(Math.abs(b - Math.min(columns, (start[i] + duration[i] - t0) / width)) < 1e-6);
    }
    if (wide.length) continue;
    // Where all are narrow, the columns together are busy exactly as long as the lane is.
    const total = shares.reduce((sum, share) => sum + share, 0) * width;
    assert.ok(Math.abs(total - busyTime(start, duration, sums, 0, start.length, t0, t1)) < 1e-6);
  }
});

test("a million events cost no more than the columns", () => {
  const count = 1_000_000;
  const start = new Uint32Array(count);
  const duration = new Uint32Array(count).fill(3);
  for (let i = 0; i < count; i++) start[i] = i * 4;
  const sums = busyBefore(duration);
  let calls = 0;
  walk({ lo: 0, hi: count }, 1000, 0, count * 4, start, duration, sums, () => calls++, () => calls++);
  assert.ok(calls <= 1000, `${calls} columns`);
});
