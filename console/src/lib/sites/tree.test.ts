import { expect, test } from 'vitest';
import { tree } from './tree.ts';

const file = (path: string, size: number) => ({ path, size, sha256: '', content_type: 'text/plain' });

test('folders count what is below them', () => {
  const root = tree([file('b.txt', 1), file('a/x/1', 2), file('a/2', 3)]);
  expect([root.files, root.bytes, root.leaves.map(({ path }) => path)]).toEqual([3, 6, ['b.txt']]);
  const [a] = root.folders;
  expect([a?.path, a?.files, a?.bytes, a?.folders[0]?.path]).toEqual(['a', 2, 5, 'a/x']);
});
