import { expect, test } from 'vitest';
import { whole } from './whole.ts';

test('a list of several pages is asked for to its end', async () => {
  const pages: Record<string, { items: number[]; next_cursor?: string | null }> = {
    '': { items: [1, 2], next_cursor: 'a' },
    a: { items: [3], next_cursor: 'b' },
    b: { items: [4], next_cursor: null },
  };
  const found = await whole(({ cursor = '' }) => Promise.resolve(pages[cursor] ?? { items: [] }));
  expect(found.flatMap(({ items }) => items)).toEqual([1, 2, 3, 4]);
});
