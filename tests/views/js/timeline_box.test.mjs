// Tests that the sums over a box count every nanosecond once, and that its CSV says what was in it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { boxCsv, csvField, inBox, summarise } from "../../../nki_lab/views/timeline/box.js";

let seed = 77;
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
}

function lanes(count, tracks) {
  const events = { start: [], duration: [], title: [], line: [], titles: ["a", "b", "c"], lines: [null, { place: "cell:1", text: " x = 1 " }], lanes: [] };
  for (let k = 0; k < count; k++) {
    const lo = events.start.length;
    let at = random(9);
    for (let i = 0; i < 12; i++) {
      events.start.push(at);
      events.duration.push(random(7));
      events.title.push(random(3));
      events.line.push(random(2));
      at += events.duration.at(-1) + random(5);
    }
    events.lanes.push({ lo, hi: events.start.length, track: k % tracks });
  }
  return events;
}

test("sums agree with counting nanosecond by nanosecond", () => {
  for (let round = 0; round < 60; round++) {
    const events = lanes(6, 2);
    const t0 = random(30);
    const t1 = t0 + 1 + random(40);
    const parts = inBox(events, events.lanes, t0, t1);
    const sums = summarise(events, parts, t0, t1);
    const inside = (i) => events.start[i] + events.duration[i] > t0 && events.start[i] < t1;
    const within = (i, t) => events.start[i] <= t && t < events.start[i] + events.duration[i];
    const all = [...events.start.keys()].filter(inside);
    assert.equal(sums.count, all.length);
    for (const { track, busy, ns, count } of sums.tracks) {
      const own = all.filter((i) => events.lanes.find((lane) => i >= lane.lo && i < lane.hi).track === track);
      let union = 0;
      let sum = 0;
      for (let t = t0; t < t1; t++) {
        const open = own.filter((i) => within(i, t)).length;
        union += Number(open > 0);
        sum += open;
      }
      assert.deepEqual([busy, ns, count], [union, sum, own.length]);
    }
    assert.equal(sums.titles.reduce((n, t) => n + t.count, 0), all.length);
    assert.equal(sums.lines.reduce((n, t) => n + t.count, 0), all.filter((i) => events.line[i]).length);
  }
});

test("fields of CSV survive commas, quotes and line ends", () => {
  assert.deepEqual(["x", "a,b", 'say "y"', "two\nlines", 5, " x"].map(csvField), ["x", '"a,b"', '"say ""y"""', '"two\nlines"', "5", '" x"']);
});

test("the CSV lists the events by start in times of the profile", () => {
  const events = {
    start: [10, 40, 5], duration: [5, 0, 100], title: [0, 1, 1], line: [1, 0, 0], titles: ["add", "a,b"], lines: [null, { place: "cell, line 3", text: "  y = x" }],
    lanes: [{ lo: 0, hi: 2, track: 0 }, { lo: 2, hi: 3, track: 1 }],
  };
  const text = boxCsv(events, inBox(events, events.lanes, 0, 50), 1000, { track: (lane) => `t${lane.track}`, title: (i) => events.titles[events.title[i]] });
  assert.equal(text, [
    "start_ns,end_ns,duration_ns,track,name,place,line",
    '1005,1105,100,t1,"a,b",,', '1010,1015,5,t0,add,"cell, line 3",y = x', '1040,1040,0,t0,"a,b",,', "",
  ].join("\n"));
});
