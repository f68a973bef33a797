/**
 * Where in a cell are magics, and what are the words behind them?
 */

import { Catalog } from './catalog.js';

/** A line with a magic of NKI's. */
export interface IMagicLine {
  /** `%%nki`, `%nki_target` */
  name: string;
  /** Where its name starts and ends, and where the line ends. */
  from: number;
  nameEnd: number;
  to: number;
}

/** A part of a magic line. */
export interface IWord {
  from: number;
  to: number;
  text: string;
  /** The option whose value it is. */
  flag?: string;
}

// IPython drops blank lines and indentation above a cell magic.
const CELL = /^\s*(%%\w+)(?!\S)[^\n]*/;
const LINE = /^[ \t]*(%\w+)(?!\S)[^\n]*/gm;

// A word as a shell sees it; a quote that is still open runs to the end of the line.
const WORD = /(?:'[^']*(?:'|$)|"(?:\\.|[^"\\])*(?:"|$)|\\.|[^\s'"\\])+/g;

/** Returns the cell magic, or the line magics of a cell that has none. */
export function magicLines(cell: string, catalog: Catalog): IMagicLine[] {
  const head = CELL.exec(cell);
  const found = head ? [head] : [...cell.matchAll(LINE)];
  return found
    .filter(match => catalog.magic(match[1]))
    .map(match => {
      const from = match.index + match[0].indexOf('%');
      const to = match.index + match[0].length;
      return { name: match[1], from, nameEnd: from + match[1].length, to };
    });
}

/** Tells whether a cell starts with a cell magic of NKI's. */
export function isNkiCell(cell: string, catalog: Catalog): boolean {
  return magicLines(cell, catalog)[0]?.name.startsWith('%%') ?? false;
}

/**
 * Returns the words behind a magic.
 *
 * `--target=trn2` is an option and its value; of `--show ir,memory` each value is a word.
 */
export function wordsOf(cell: string, line: IMagicLine, catalog: Catalog): IWord[] {
  const words: IWord[] = [];
  let awaiting: string | undefined;
  for (const { 0: text, index } of cell.slice(line.nameEnd, line.to).matchAll(WORD)) {
    let from = line.nameEnd + index;
    let rest = text;
    const flag = text.split('=', 1)[0];
    const option = catalog.option(line.name, flag);
    if (option) {
      words.push({ from, to: from + flag.length, text: flag });
      awaiting = option.metavar ? flag : undefined;
      if (!text.includes('=')) {
        continue;
      }
      from += flag.length + 1;
      rest = text.slice(flag.length + 1);
    }
    const many = awaiting !== undefined && catalog.option(line.name, awaiting)?.many;
    for (const part of many ? rest.split(',') : [rest]) {
      words.push({ from, to: from + part.length, text: part, flag: awaiting });
      from += part.length + 1;
    }
    awaiting = undefined;
  }
  return words;
}

const VERSION = /#\s*nki\s*(?:[:=]+\s*|\s)(\d+\.\d+)/i;
const FUNCTION = /^(?:@|(?:async\s+)?def\b|class\b)/;
const BETWEEN = /^\s*(?:#|$|@)/;

/**
 * Returns the version of NKI that the kernel at an offset of a cell is written for; undefined where the cell names none.
 *
 * A comment above or in the kernel says it, then one before the first function, then `--nki`.
 */
export function versionAt(cell: string, offset: number, catalog: Catalog): string | undefined {
  const line = magicLines(cell, catalog)[0];
  const option = line && wordsOf(cell, line, catalog).find(word => word.flag === '--nki');
  const lines = cell.slice(line?.name.startsWith('%%') ? line.to : 0).split('\n');
  let at = lines.length - cell.slice(offset).split('\n').length;
  const end = lines.findIndex((text, n) => n > at && FUNCTION.test(text));
  while (at >= 0 && !FUNCTION.test(lines[at])) {
    at -= 1;
  }
  const above = (n: number) => {
    while (n > 0 && BETWEEN.test(lines[n - 1])) {
      n -= 1;
    }
    return n;
  };
  const first = lines.findIndex(text => FUNCTION.test(text));
  const head = first < 0 ? lines.length : above(first) || first;
  const own = at < 0 ? [] : lines.slice(above(at), end < 0 ? undefined : end);
  const said = [...own, ...lines.slice(0, head)].map(text => VERSION.exec(text)?.[1]);
  return said.find(version => version !== undefined) ?? option?.text;
}

/** Tells whether a version of NKI has what is new in `since`. */
export function hasVersion(version: string | undefined, since: string | undefined): boolean {
  const number = (name: string) => name.split('.').map(Number);
  if (version === undefined || since === undefined || !/^\d+\.\d+/.test(version)) {
    return true;
  }
  const [[major, minor], [sinceMajor, sinceMinor]] = [number(version), number(since)];
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor);
}
