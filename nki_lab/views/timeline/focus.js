// Finds the events that stand out: those of a query, of a line, of the critical path.  Without a browser.

const UNITS = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };
const LIMIT = /^([<>]=?)(\d+(?:\.\d+)?)(ns|us|µs|ms|s)?$/i;

/**
 * Return what a query asks for: words that all have to occur, and limits of the duration in ns.
 *
 * `tensor_copy >1us` finds events with that word that take more than a microsecond; a part in quotes may hold blanks.
 */
export function readQuery(text) {
  const words = [];
  let least = 0;
  let most = Infinity;
  for (const [, quoted, plain] of text.matchAll(/"([^"]*)"?|(\S+)/g)) {
    const limit = quoted === undefined && plain.match(LIMIT);
    if (limit) {
      const ns = Number(limit[2]) * UNITS[(limit[3] || "ns").toLowerCase()];
      const strict = limit[1].length === 1 ? Math.min(1e-6, ns || 1e-6) : 0;
      if (limit[1][0] === ">") least = Math.max(least, ns + strict);
      else most = Math.min(most, ns - strict);
    } else if (quoted || plain) {
      words.push((quoted || plain).toLowerCase());
    }
  }
  return { words, least, most };
}

/**
 * Return the events that a query finds, as one byte each: 1 or 0.
 *
 * `texts` are lists of texts with a code per event each: {texts, code(i)}; a word may occur in any of them, or in
 * the name of the event's lane.
 */
export function findEvents({ words, least, most }, events, columns, laneName) {
  const found = new Uint8Array(events.start.length);
  const holds = columns.map(({ texts }) => words.map((word) => Uint8Array.from(texts, (text) => Number(text.toLowerCase().includes(word)))));
  for (const lane of events.lanes) {
    const name = laneName(lane).toLowerCase();
    const open = words.map((word, w) => [word, w]).filter(([word]) => !name.includes(word)).map(([, w]) => w);
    for (let i = lane.lo; i < lane.hi; i++) {
      const lasting = events.duration[i];
      if (lasting < least || lasting > most) continue;
      let fits = 1;
      for (const w of open) {
        let here = 0;
        for (let c = 0; c < columns.length && !here; c++) here = holds[c][w][columns[c].codes[i]];
        if (!here) { fits = 0; break; }
      }
      found[i] = fits;
    }
  }
  return found;
}

/** Return a set of events that stands out: its size, and how to find the next one within a span of them. */
export function focusOn(mask, label) {
  const next = new Uint32Array(mask.length + 1);
  next[mask.length] = mask.length;
  let count = 0;
  for (let i = mask.length - 1; i >= 0; i--) {
    count += mask[i];
    next[i] = mask[i] ? i : next[i + 1];
  }
  return { mask, next, count, label };
}

/** Return the event of a focus that begins first after `time`, or before it for by = -1; around the ends. */
export function neighbour(focus, start, chosen, by) {
  let best = -1;
  let first = -1;
  const key = (i) => start[i] * by + (by * i) / (start.length + 1); // events of one start in the order of their numbers
  const now = chosen >= 0 ? key(chosen) : -Infinity;
  for (let i = focus.next[0]; i < focus.mask.length; i = focus.next[i + 1]) {
    const at = key(i);
    if (first < 0 || at < key(first)) first = i;
    if (at > now && (best < 0 || at < key(best))) best = i;
  }
  return best >= 0 ? best : first;
}
