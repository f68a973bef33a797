/**
 * Are numbers of a run written as the kernel writes them?
 */

import { expect, test } from '@jest/globals';
import { bytes, share, time } from '../src/times';

test('times have three places and the unit that fits', () => {
  expect([4017, 999_999, 1_234_567, 0].map(time)).toEqual(['4.017 us', '999.999 us', '1.235 ms', '0.000 us']);
  expect(time(12_345_678_901)).toBe('12,345.679 ms');
  expect(time(null)).toBe('not timed');
});

test('a share is all only where it is', () => {
  expect([share(0, 16), share(1, 3), share(9999, 10000), share(16, 16), share(20, 16)]).toEqual([
    '0.0 %',
    '33.3 %',
    '99.9 %',
    '100.0 %',
    '125.0 %'
  ]);
  expect(bytes(245752)).toBe('245,752');
});
