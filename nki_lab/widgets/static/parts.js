// Gets data from the kernel.  Small parts are in the widget's state; the others are requested.
//
// A part is a compressed block that `widgets/packing.py` describes.  Python objects arrive as `meta`,
// columns as typed arrays.

const ARRAYS = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array,
  i4: Int32Array, f4: Float32Array, f8: Float64Array,
};
const PATIENCE_MS = 15000;

/** Return {meta, arrays} of a block that `pack` made. */
export async function unpack(block) {
  const inflated = new Blob([block]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(inflated).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, kind, at, count] of header.arrays) {
    arrays[name] = new ARRAYS[kind](buffer, 4 + length + at, count);
  }
  return { meta: header.meta, arrays };
}

/** Parts of one run, by name. */
export class Source {
  constructor(model) {
    this.model = model;
    this.known = new Map();
    this.waiting = new Map();
    this.asked = new Map();
    this.heard = (message, blocks) => this.receive(message, blocks);
    model.on("msg:custom", this.heard);
  }

  /** Return a promise of a part that comes in one block. */
  get(name, patience = PATIENCE_MS) {
    if (!this.known.has(name)) {
      const part = this.stream(name, () => {}, patience).then((parts) => parts[0]);
      this.known.set(name, part);
      part.catch(() => this.known.delete(name)); // so that asking again may succeed
    }
    return this.known.get(name);
  }

  /** Return a promise of a part in one block that is not kept, since there are many like it. */
  once(name) {
    if (!this.asked.has(name)) {
      const done = () => this.asked.delete(name);
      const part = this.stream(name, () => {}).then((parts) => parts[0]);
      this.asked.set(name, part);
      part.then(done, done);
    }
    return this.asked.get(name);
  }

  /** Hand the blocks of a part to `take` one by one; the promise ends with all of them. */
  stream(name, take, patience = PATIENCE_MS) {
    const stored = (this.model.get("parts") || {})[name];
    if (stored) {
      // The state of a widget has one block of a part, a saved page a list of them.
      return [stored].flat().reduce((chain, block) => chain.then(async (parts) => {
        const part = await unpack(block);
        take(part);
        return [...parts, part];
      }), Promise.resolve([]));
    }
    return new Promise((resolve, reject) => {
      const request = { take, resolve, reject, patience, parts: [], chain: Promise.resolve(), timer: 0 };
      this.waiting.set(name, request);
      this.watch(name, request);
      this.model.send({ want: name });
    });
  }

  /** Give up on a kernel that says nothing for a while: it may be busy, restarted or gone. */
  watch(name, request) {
    clearTimeout(request.timer);
    request.timer = setTimeout(() => {
      this.waiting.delete(name);
      request.reject(new Error(
        "The kernel does not answer. It is busy, or it was restarted after this view was made: run the cell again.",
      ));
    }, request.patience);
  }

  receive(message, blocks) {
    const request = this.waiting.get(message.part);
    if (!request) return;
    if (message.error !== undefined) {
      clearTimeout(request.timer);
      this.waiting.delete(message.part);
      request.reject(new Error(message.error));
      return;
    }
    this.watch(message.part, request);
    if (message.last) {
      clearTimeout(request.timer);
      this.waiting.delete(message.part);
    }
    // Inflating takes turns, so that blocks arrive in the order they were sent.
    request.chain = request.chain.then(() => unpack(blocks[0])).then((part) => {
      request.parts.push(part);
      request.take(part);
      if (message.last) request.resolve(request.parts);
    }, request.reject);
  }

  close() {
    this.model.off("msg:custom", this.heard);
    for (const request of this.waiting.values()) clearTimeout(request.timer);
    this.waiting.clear();
  }
}

/** Return the parts whose names begin with `prefix`, as a source. */
export function within(source, prefix) {
  return {
    get: (name, patience) => source.get(prefix + name, patience),
    once: (name) => source.once(prefix + name),
    stream: (name, take, patience) => source.stream(prefix + name, take, patience),
  };
}
