/**
 * @jest-environment jsdom
 *
 * Does a bar say how far the work is, and does its button stop it once?
 */

import { describe, expect, jest, test } from '@jest/globals';
import { ProgressBar } from '../src/progress_bar';

const textOf = (bar: ProgressBar) => bar.node.querySelector('span')!.textContent;
const button = (bar: ProgressBar) => bar.node.querySelector('button')!;

describe('a bar', () => {
  test('shows a share where it is known', () => {
    const bar = new ProgressBar(() => undefined);
    bar.tell(0.255, 'add: timing');
    expect(bar.node.querySelector('progress')!.value).toBeCloseTo(0.255);
    expect(textOf(bar)).toBe('add: timing 26 %');
  });

  test('shows only that something is done where the share is not known', () => {
    const bar = new ProgressBar(() => undefined);
    bar.tell(0.5, 'add: timing');
    bar.tell(null, 'add: tracing, 1,200 instructions');
    expect(bar.node.querySelector('progress')!.hasAttribute('value')).toBe(false);
    expect(textOf(bar)).toBe('add: tracing, 1,200 instructions');
  });

  test('shows names from users literally', () => {
    const bar = new ProgressBar(() => undefined);
    bar.tell(null, '<img src=x onerror=alert(1)>');
    expect(bar.node.querySelector('img')).toBeNull();
    expect(textOf(bar)).toBe('<img src=x onerror=alert(1)>');
  });

  test('stops once', () => {
    const stop = jest.fn();
    const bar = new ProgressBar(stop);
    button(bar).click();
    button(bar).click();
    expect(stop).toHaveBeenCalledTimes(1);
    expect(button(bar).textContent).toBe('Stopping…');
  });
});
