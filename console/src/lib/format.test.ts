import { expect, test } from 'vitest';
import { bytes, counted, relative } from './format.ts';

test('bytes are written with the unit that keeps them short', () => {
  expect([0, 999, 1_000, 1_234, 99_400, 999_400, 999_500, 1.5e9].map(bytes)).toEqual([
    '0 B',
    '999 B',
    '1 kB',
    '1.2 kB',
    '99.4 kB',
    '999 kB',
    '1 MB',
    '1.5 GB',
  ]);
});

test('nouns follow their numbers', () => {
  expect([counted(1, 'file'), counted(2, 'file'), counted(0, 'entry', 'entries')]).toEqual([
    '1 file',
    '2 files',
    '0 entries',
  ]);
});

test('times are told as seen from now', () => {
  const now = Date.UTC(2026, 10, 23, 12);
  const at = (seconds: number) => relative(now + seconds * 1000, now);
  expect([at(-3), at(-120), at(-7_200), at(-86_400), at(3 * 86_400)]).toEqual([
    'just now',
    '2 minutes ago',
    '2 hours ago',
    'yesterday',
    'in 3 days',
  ]);
});
