// Tests which tile owns which bytes at a moment, and which bytes are free.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bytesInUse, freeBytes, lifetimeClass, liveAt, longestLifetime, tileAt, tilesOf } from "../../../nki_lab/views/memory/tiles.js";

const tiles = tilesOf("sbuf", 4, {
  "sbuf.first": [0, 2, 2, 9], "sbuf.last": [3, 5, 20, 9], "sbuf.address": [256, 64, 320, 0], "sbuf.size": [128, 32, 64, 8],
  "sbuf.partition": [0, 64, 0, 0], "sbuf.partitions": [64, 32, 64, 128], "psum.first": [7],
});

test("the columns of one memory are taken", () => {
  assert.deepEqual(Object.keys(tiles), ["count", "first", "last", "address", "size", "partition", "partitions"]);
  assert.deepEqual(tiles.first, [0, 2, 2, 9]);
});

test("tiles in use come by address", () => {
  assert.deepEqual([0, 2, 4, 9, 21].map((n) => liveAt(tiles, n)), [[0], [1, 0, 2], [1, 2], [3, 2], []]);
});

test("free bytes are what no partition uses", () => {
  // At 2: 64 to 95, and 256 to 383 (two tiles lie on each other there).
  assert.deepEqual(freeBytes(tiles, liveAt(tiles, 2), 512), { free: 512 - 32 - 128, largest: 160, fragmentation: 1 - 160 / 352 });
  assert.deepEqual(freeBytes(tiles, [], 512), { free: 512, largest: 512, fragmentation: 0 });
  assert.deepEqual(freeBytes(tiles, liveAt(tiles, 2), 300), { free: 64 + 160, largest: 160, fragmentation: 1 - 160 / 224 });
});

test("bytes in use are those of the fullest partition", () => {
  assert.equal(bytesInUse(tiles, liveAt(tiles, 2), 128), 128 + 64);
  assert.equal(bytesInUse(tiles, liveAt(tiles, 9), 128), 8 + 64);
  assert.equal(bytesInUse(tiles, [], 128), 0);
});

test("the tile at a byte is found", () => {
  assert.equal(tileAt(tiles, -1, 2, 330), 2, "the later one lies on top");
  assert.equal(tileAt(tiles, 70, 2, 330), -1);
  assert.equal(tileAt(tiles, 70, 2, 64), 1);
});

test("lifetimes fall into classes of equal factors", () => {
  const longest = longestLifetime([tiles, { count: 0 }]);
  assert.equal(longest, 19);
  assert.deepEqual([3, 0, 1, 2].map((k) => lifetimeClass(tiles, k, longest, 5)), [0, 2, 2, 4]);
  assert.equal(lifetimeClass(tiles, 3, 1, 5), 0);
});
