/**
 * Has each cell the marks of the last run or check of each cell, and no others?
 */

import { expect, test } from '@jest/globals';
import { Marks } from '../src/marks';
import { IMark } from '../src/protocol';

const mark = (line: number, message: string): IMark => ({
  line,
  column: 0,
  endLine: line,
  endColumn: 1,
  text: '',
  code: 'NKI108',
  severity: 'error',
  message,
  notes: [],
  help: '',
  fixes: []
});
const said = (marks: Marks, cell: string) => marks.of(cell).map(({ message }) => message);

test('a run replaces what the same cell had found before, wherever it was', () => {
  const marks = new Marks();
  expect(marks.update('a', { a: [mark(2, 'one')], helper: [mark(1, 'two')] })).toEqual(new Set(['a', 'helper']));
  expect(marks.update('a', { a: [mark(3, 'three')] })).toEqual(new Set(['a', 'helper']));
  expect([said(marks, 'a'), said(marks, 'helper')]).toEqual([['three'], []]);
});

test('a cell that runs loses what others found in its former text', () => {
  const marks = new Marks();
  marks.update('a', { a: [mark(1, 'call')], helper: [mark(2, 'inside')] });
  expect(marks.update('helper', { helper: [] })).toEqual(new Set(['helper']));
  expect([said(marks, 'a'), said(marks, 'helper')]).toEqual([['call'], []]);
});

test('what two cells find in a third is listed once, in the order of its lines', () => {
  const marks = new Marks();
  marks.update('a', { helper: [mark(5, 'late'), mark(2, 'same')] });
  marks.update('b', { helper: [mark(2, 'same')] });
  expect(said(marks, 'helper')).toEqual(['same', 'late']);
  marks.update('a', { a: [] });
  expect(said(marks, 'helper')).toEqual(['same']);
});

test('one mark can be dropped, and all cleared', () => {
  const marks = new Marks();
  marks.update('a', { a: [mark(1, 'one'), mark(2, 'two')] });
  const [first] = marks.of('a');
  expect(marks.drop('a', first)).toBe(true);
  expect(marks.drop('a', first)).toBe(false);
  expect(marks.drop('other', first)).toBe(false);
  expect(said(marks, 'a')).toEqual(['two']);
  expect(marks.clear()).toEqual(new Set(['a']));
  expect(said(marks, 'a')).toEqual([]);
});

test('nothing has changed where nothing was and nothing is', () => {
  expect(new Marks().update('a', { a: [] })).toEqual(new Set());
});
