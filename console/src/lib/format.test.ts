import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { bytes, counted, GB, KB, MB, relative, spent } from './format.ts';

test('bytes are written with the unit that keeps them short', () => {
  const sizes = [0, 1023, KB, 1.5 * KB, 99.9 * KB, 100.9 * KB, 1023 * KB, MB - 1, 67_200_000, 1.5 * GB];
  expect(sizes.map(bytes)).toEqual([
    '0 B',
    '1,023 B',
    '1 KB',
    '1.5 KB',
    '99.9 KB',
    '101 KB',
    '1,023 KB',
    '1 MB',
    '64.1 MB',
    '1.5 GB',
  ]);
});

test('limits are written as the API writes them', () => {
  expect([25 * MB, 250 * MB, 512 * KB, 100 * GB].map(bytes)).toEqual(['25 MB', '250 MB', '512 KB', '100 GB']);
});

test('what completions cost is written with all its digits', () => {
  expect([spent(1_234_500, 2), spent(150_000_000, 150), spent(1, 1), spent(undefined, 7)]).toEqual([
    '€0.012345',
    '€1.50',
    '€0.00000001',
    '€0.07',
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

test('numbers and dates are in the language of the sentences, whatever the browser speaks', () => {
  const folder = join(import.meta.dirname, '..');
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /\.(ts|svelte)$/.test(path),
  );
  const found = sources
    .filter((path) => !path.endsWith('.test.ts'))
    .filter((path) =>
      /\.toLocale\w*\((undefined|\))|Intl\.\w+\((undefined|\))/.test(
        readFileSync(join(folder, path), 'utf8'),
      ),
    );
  expect(found).toEqual([]);
  expect(relative(Date.UTC(2026, 0, 31), Date.UTC(2026, 0, 1))).toBe('next month');
});
