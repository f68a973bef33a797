/**
 * What in a cell is code, and what do its imports name?  Plain text in: no editor and no kernel.
 */

import { get, ICatalog } from './catalog.js';

/** Name in a cell -> full official name, such as `nl` -> `nki.language`. */
export type Aliases = ReadonlyMap<string, string>;

// Comments and strings; one that is never closed runs to the end of the line, or of the text.
const NOT_CODE = new RegExp(
  [
    String.raw`#[^\n]*`,
    String.raw`("""|''')(?:\\[^]|(?!\1)[^])*(?:\1|$)`,
    String.raw`"(?:\\[^]|[^"\\\n])*"?`,
    String.raw`'(?:\\[^]|[^'\\\n])*'?`
  ].join('|'),
  'g'
);

/** A name, or names joined by dots; not one that belongs to an expression before it. */
export const CHAIN = /(?<![\p{L}\p{N}_.])[\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*/gu;

/** Returns the text with comments and strings as blanks: every offset stays what it was. */
export function codeOf(text: string): string {
  return text.replace(NOT_CODE, found => found.replace(/[^\n]/g, ' '));
}

/** Tells whether an offset lies in a comment or a string. */
export function isOutsideCode(text: string, offset: number): boolean {
  for (const { 0: found, index } of text.matchAll(NOT_CODE)) {
    if (index >= offset) {
      return false;
    }
    const end = index + found.length;
    const closed = /["']$/.test(found) && found.length > 1;
    if (offset < end || (offset === end && !closed)) {
      return true;
    }
  }
  return false;
}

const IMPORT = /^[ \t]*import[ \t]+([^\n;]+)/gm;
const FROM = /^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]*(?:\(([^)]*)\)|([^\n;]+))/gm;
const PART = /^\s*([\w.]+|\*)(?:\s+as\s+(\w+))?\s*$/;

/** Returns what the imports of a cell name: something of NKI's, or nothing known (an empty name). */
export function importsOf(text: string, catalog: ICatalog): Map<string, string> {
  const found = new Map<string, string>();
  if (!text.includes('import')) {
    return found;
  }
  const known = (path: string) => {
    const full = get(catalog.homes, path) ?? path;
    return Object.hasOwn(catalog.entries, full) || Object.hasOwn(catalog.modules, full) ? full : '';
  };
  const code = codeOf(text).replace(/\\\n/g, '  ').replace(/;/g, '\n');
  for (const [, parts] of code.matchAll(IMPORT)) {
    for (const [, path, alias] of partsOf(parts)) {
      // `import nki.isa` binds `nki`.
      const top = path.split('.')[0];
      found.set(alias ?? top, known(alias === undefined ? top : path));
    }
  }
  for (const [, path, inside, rest] of code.matchAll(FROM)) {
    const module = known(path);
    for (const [, name, alias] of partsOf(inside ?? rest)) {
      for (const each of name === '*' ? get(catalog.modules, module) ?? [] : [name]) {
        found.set(alias ?? each, known(`${path}.${each}`) || (module && known(`${module}.${each}`)));
      }
    }
  }
  return found;
}

function* partsOf(list: string): Iterable<RegExpExecArray> {
  for (const part of list.split(',')) {
    const found = PART.exec(part);
    if (found) {
      yield found;
    }
  }
}

/** A call that is still open at an offset. */
export interface ICall {
  /** What is called, as it is written, and where that starts. */
  callee: string;
  from: number;
  /** Keywords of its other arguments. */
  used: string[];
  /** Keyword of the argument at the offset, if it has one. */
  keyword?: string;
  /** How many arguments stand before it. */
  position: number;
  /** Where the argument starts: behind the keyword, if there is one. */
  start: number;
}

interface IOpen extends ICall {
  bracket: string;
}

const MARK = /[()[\]{},]|\n(?=\S)|(?<![=!<>:+\-*/%&|^@])=(?!=)/g;
const CALLEE = /([\p{L}_][\p{L}\p{N}_.]*)[ \t]*$/u;
const KEYWORD = /([\p{L}_][\p{L}\p{N}_]*)\s*$/u;
// A statement at the left edge ends whatever was left open above it.
const STATEMENT = /^(?:def|class|import|from|return|for|while|with|if|async)\b|^@/;

/**
 * Returns the innermost call around an offset whose arguments the offset is directly in.
 *
 * Args:
 *   code: the text as `codeOf` gives it.
 */
export function callAt(code: string, offset: number): ICall | undefined {
  const open: IOpen[] = [];
  let found: IOpen | undefined;
  let depth = -1;
  for (const { 0: mark, index } of code.matchAll(MARK)) {
    if (index >= offset && depth < 0) {
      found = open.at(-1);
      depth = open.length;
      if (found?.bracket !== '(' || !found.callee) {
        return undefined;
      }
    }
    const last = open.at(-1);
    if (mark[0] === '\n') {
      if (STATEMENT.test(code.slice(index + 1, index + 12))) {
        if (depth >= 0) {
          break;
        }
        open.length = 0;
      }
    } else if ('([{'.includes(mark)) {
      const callee = mark === '(' ? CALLEE.exec(code.slice(0, index)) : null;
      open.push({
        bracket: mark,
        callee: callee?.[1] ?? '',
        from: callee?.index ?? index,
        used: [],
        position: 0,
        start: index + 1
      });
    } else if (')]}'.includes(mark)) {
      open.pop();
      if (depth >= 0 && open.length < depth) {
        break;
      }
    } else if (last && mark === ',') {
      if (depth < 0) {
        if (last.keyword) {
          last.used.push(last.keyword);
        }
        last.position += 1;
        last.start = index + 1;
        last.keyword = undefined;
      }
    } else if (last?.bracket === '(' && mark === '=') {
      const keyword = KEYWORD.exec(code.slice(last.start, index))?.[1];
      if (keyword && depth < 0) {
        last.keyword = keyword;
        last.start = index + 1;
      } else if (depth === open.length) {
        const behind = KEYWORD.exec(code.slice(0, index))?.[1];
        if (behind) {
          last.used.push(behind);
        }
      }
    }
  }
  found ??= depth < 0 ? open.at(-1) : undefined;
  return found?.bracket === '(' && found.callee ? found : undefined;
}
