// Tests that data arrives in order and as Python packed it, also when the kernel does not answer.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Source, unpack } from "../../../nki_lab/widgets/static/parts.js";

// Written by tests/widgets/test_scripts.py from what `pack` gives, as base64.
const packed = (name) => Buffer.from(process.env[`NKI_PACKED_${name}`], "base64");

class Model {
  constructor(parts) {
    this.parts = parts;
    this.sent = [];
  }
  get() { return this.parts; }
  on(_, heard) { this.heard = heard; }
  off() { this.heard = null; }
  send(message) { this.sent.push(message); }
}

test("JSON and columns of every type arrive", async () => {
  const { meta, arrays } = await unpack(packed("ALL"));
  assert.deepEqual(meta, { text: "<b>ä\u202e</b>", list: [1, null, -2.5] });
  assert.deepEqual([...arrays.u1], [1, 255]);
  assert.deepEqual([...arrays.u2], [65535]);
  assert.deepEqual([...arrays.u4], [4294967295, 7, 8]);
  assert.deepEqual([...arrays.i4], [-5]);
  assert.deepEqual([...arrays.f4], [0.5]);
  assert.deepEqual([...arrays.f8], [2 ** 53, -0.25]);
  assert.equal(arrays.none.length, 0);
});

test("what lies in the state is not asked for", async () => {
  const model = new Model({ report: packed("ALL") });
  const { meta } = await new Source(model).get("report");
  assert.equal(meta.list.length, 3);
  assert.deepEqual(model.sent, []);
});

test("blocks are taken in the order they were sent, and a part is asked for once", async () => {
  const model = new Model({});
  const source = new Source(model);
  const seen = [];
  const whole = source.stream("events", ({ arrays }) => seen.push(arrays.k[0]));
  assert.deepEqual(model.sent, [{ want: "events" }]);
  model.heard({ part: "other", last: true }, [packed("ONE")]);
  model.heard({ part: "events", last: false }, [packed("ONE")]);
  model.heard({ part: "events", last: true }, [packed("TWO")]);
  assert.equal((await whole).length, 2);
  assert.deepEqual(seen, [1, 2]);
  const first = source.get("memory");
  assert.equal(source.get("memory"), first);
  source.close();
});

test("an error of the kernel is told, and asking again asks again", async () => {
  const model = new Model({});
  const source = new Source(model);
  const failed = source.get("ir/9");
  model.heard({ part: "ir/9", error: "there is no part 9" }, []);
  await assert.rejects(failed, /there is no part 9/);
  source.get("ir/9").catch(() => {});
  assert.equal(model.sent.length, 2);
  source.close();
});

test("a kernel that says nothing is given up after a while", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const source = new Source(new Model({}));
  const failed = source.get("memory");
  context.mock.timers.tick(60_000);
  await assert.rejects(failed, /run the cell again/);
});
