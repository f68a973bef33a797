// Tests that queries find exactly the events that fit, and that stepping visits them in the order of time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { findEvents, focusOn, neighbour, readQuery } from "../../../nki_lab/views/timeline/focus.js";

const EVENTS = {
  start: [0, 100, 400, 50, 420], duration: [50, 300, 20, 1000, 2000], title: [0, 1, 0, 2, 2],
  lanes: [{ lo: 0, hi: 3, track: 0 }, { lo: 3, hi: 5, track: 1 }],
};
const TITLES = { texts: ["MATMUL", "Tensor_Copy", "x <b>"], codes: EVENTS.title };
const LINES = { texts: ["", "cell [1], line 4 y = f(x)"], codes: [1, 0, 1, 0, 0] };
const find = (query) => [...findEvents(readQuery(query), EVENTS, [TITLES, LINES], ({ track }) => ["Vector", "qIn"][track]).entries()]
  .filter(([, one]) => one).map(([i]) => i);

test("words are looked for in titles, lines and names of tracks, and all of them have to occur", () => {
  assert.deepEqual(find("matmul"), [0, 2]);
  assert.deepEqual(find("copy vec"), [1]);
  assert.deepEqual(find("qin"), [3, 4]);
  assert.deepEqual(find('"line 4"'), [0, 2]);
  assert.deepEqual(find("<b>"), [3, 4]);
  assert.deepEqual(find("matmul qin"), []);
});

test("durations have units and limits", () => {
  assert.deepEqual(find(">300"), [3, 4]);
  assert.deepEqual(find(">=300ns"), [1, 3, 4]);
  assert.deepEqual(find(">1us"), [4]);
  assert.deepEqual(find("<=1us >=0.3us"), [1, 3]);
  assert.deepEqual(find("<50 matmul"), [2]);
  assert.deepEqual(readQuery("> 3").words, [">", "3"]); // a comparison without a number is a word
});

test("a focus knows its size and its next event", () => {
  const focus = focusOn(Uint8Array.from([0, 1, 0, 1, 1]), "some");
  assert.equal(focus.count, 3);
  assert.deepEqual([...focus.next], [1, 1, 3, 3, 4, 5]);
});

test("stepping goes by time, not by lane, and around the ends", () => {
  const focus = focusOn(Uint8Array.from([1, 1, 1, 1, 0]), "some");
  const seen = [];
  let at = -1;
  for (let k = 0; k < 5; k++) seen.push((at = neighbour(focus, EVENTS.start, at, 1)));
  assert.deepEqual(seen, [0, 3, 1, 2, 0]);
  assert.deepEqual([2, 1, 3, 0].map((i) => neighbour(focus, EVENTS.start, i, -1)), [1, 3, 0, 2]);
  assert.equal(neighbour(focusOn(new Uint8Array(5), "none"), EVENTS.start, -1, 1), -1);
});
