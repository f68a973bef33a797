// The lines of a program that are listed, and the parts of a line.  Pure functions, without a browser.

export const GAP = "gap";
const AROUND = 2;
const TENSOR = /%(?:"(?:[^"\\]|\\.)*"|[\p{L}_][\p{L}\p{N}_.]*)/gu;

/**
 * Return what is listed: k >= 0 is line k, -1 - j the line j that a pass took away, GAP a place where lines are left out.
 *
 * `fresh` tells which lines are new, `taken` are [line it stood below, text]; `engine` is the engine's number per line,
 * of which only `wanted` is shown (0: all).
 */
export function rowsOf(fresh, taken, engine, { removed = true, changes = false, wanted = 0 } = {}) {
  const count = fresh.length;
  const below = new Map();
  taken.forEach(([line], j) => below.set(line, [...(below.get(line) || []), j]));
  const shown = new Uint8Array(count).fill(changes || wanted ? 0 : 1);
  if (changes) {
    for (let k = 0; k < count; k++) {
      if (fresh[k] || below.has(k)) shown.fill(1, Math.max(0, k - AROUND), k + AROUND + 1);
    }
    if (below.has(-1)) shown.fill(1, 0, AROUND);
  }
  if (wanted) for (let k = 0; k < count; k++) shown[k] = engine[k] === wanted && (!changes || shown[k]) ? 1 : 0;
  const rows = [];
  const takeAway = (k) => { if (removed && !wanted) for (const j of below.get(k) || []) rows.push(-1 - j); };
  takeAway(-1);
  for (let k = 0; k < count; k++) {
    if (shown[k]) rows.push(k);
    else if (!wanted && rows[rows.length - 1] !== GAP) rows.push(GAP);
    takeAway(k);
  }
  return rows;
}

/** Return the parts of a line: texts, and names of tensors as {tensor}. */
export function partsOf(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(TENSOR)) {
    if (match.index > from) found.push(text.slice(from, match.index));
    found.push({ tensor: match[0] });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}

const TOKEN = new RegExp(`${TENSOR.source}|[\\p{L}\\p{N}_.#]+|\\s+|.`, "gu");

/** Return how a line was rewritten: parts [text, kind], of which those of kind 1 are new, those of kind -1 are gone. */
export function rewritten(before, after) {
  const [old, now] = [before, after].map((text) => text.match(TOKEN) || []);
  // common[i][j]: the most tokens that old[i..] and now[j..] share in order.
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const parts = [];
  const add = (text, kind) => {
    const last = parts[parts.length - 1];
    if (last && last[1] === kind) last[0] += text;
    else parts.push([text, kind]);
  };
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      add(now[j++], 0);
      i++;
    } else if (i < old.length && (j === now.length || common[i + 1][j] >= common[i][j + 1])) add(old[i++], -1);
    else add(now[j++], 1);
  }
  return parts;
}

/** Return the line on which each tensor is declared, by its name. */
export function declarations(lines) {
  const found = new Map();
  lines.forEach((line, k) => {
    if (!line.startsWith("  storage %")) return;
    const [name] = partsOf(line.slice(10));
    if (name.tensor) found.set(name.tensor, k);
  });
  return found;
}
