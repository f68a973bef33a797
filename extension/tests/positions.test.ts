/**
 * Is what a kernel speaks of found in the text, whatever its letters are and where it has moved to?
 */

import { describe, expect, test } from '@jest/globals';
import { changeOf, locate } from '../src/positions';
import { IFix, IRange } from '../src/protocol';

const DOC = '%%nki\ndef f(a):\n    x = nl.ad(a)\n    return nl.ad(x)\n';

const range = (line: number, column: number, endColumn: number, text: string, endLine = line): IRange => ({
  line,
  column,
  endLine,
  endColumn,
  text
});

const covered = (doc: string, place: IRange) => {
  const found = locate(doc, place);
  return found && doc.slice(found.from, found.to);
};

describe('locate', () => {
  test('gives the text of a range', () => {
    expect(covered(DOC, range(3, 8, 13, '    x = nl.ad(a)'))).toBe('nl.ad');
    expect(covered(DOC, range(4, 11, 16, '    return nl.ad(x)'))).toBe('nl.ad');
    expect(covered(DOC, range(2, 0, 16, 'def f(a):', 3))).toBe('def f(a):\n    x = nl.ad(a)');
  });

  test('counts characters, which may be two units of a string', () => {
    const line = "    s = '𝜎µ'; y = nl.ad(a)";
    expect(covered(`%%nki\n${line}`, range(2, 18, 23, line))).toBe('nl.ad');
  });

  test('follows a line that has moved, the nearest where there are several', () => {
    const place = range(3, 8, 13, '    x = nl.ad(a)');
    expect(locate(`\n\n${DOC}`, place)).toEqual({ from: 2 + 24, to: 2 + 29 });
    expect(locate(DOC.slice(6), place)).toEqual({ from: 18, to: 23 });
    expect(locate(`${DOC}\n\n${DOC}`, place)!.from).toBe(24);
  });

  test('gives up where the line has changed', () => {
    expect(locate(DOC.replace('x = nl.ad', 'x = nl.add'), range(3, 8, 13, '    x = nl.ad(a)'))).toBeNull();
  });

  test('shows something of an empty range, and stays inside the text', () => {
    expect(covered('%%nki', range(1, 5, 5, '%%nki'))).toBe('i');
    expect(covered('%%nki --x', range(1, 2, 2, '%%nki --x'))).toBe('n');
    expect(covered('%%nki', range(1, 0, 99, '%%nki'))).toBe('%%nki');
    expect(covered('%%nki', range(1, 0, 5, '%%nki', 9))).toBe('%%nki');
  });

  test('knows the line of a magic without the blanks around it', () => {
    expect(covered('\n  %%nki --shwo  \nx', range(2, 0, 12, '%%nki --shwo'))).toBe('  %%nki --sh');
  });
});

describe('changeOf', () => {
  const fix = (place: IRange, insert: string): IFix => ({ ...place, title: '', insert });
  const applied = (doc: string, one: IFix) => {
    const change = changeOf(doc, one);
    return change && doc.slice(0, change.from) + change.insert + doc.slice(change.to);
  };

  test('replaces a word', () => {
    expect(applied(DOC, fix(range(3, 11, 13, '    x = nl.ad(a)'), 'add'))).toBe(DOC.replace('nl.ad(a)', 'nl.add(a)'));
  });

  test('inserts a line', () => {
    expect(applied(DOC, fix(range(2, 0, 0, 'def f(a):'), 'import math\n'))).toBe(`%%nki\nimport math\n${DOC.slice(6)}`);
  });

  test('is none where the line has changed', () => {
    expect(changeOf('other', fix(range(2, 0, 0, 'def f(a):'), 'import math\n'))).toBeNull();
  });
});
