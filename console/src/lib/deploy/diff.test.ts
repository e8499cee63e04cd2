import { expect, test } from 'vitest';
import { difference, growth, undecided } from './diff.ts';

const served = [
  { path: 'index.html', size: 10, sha256: 'aa', content_type: 'text/html' },
  { path: 'same.css', size: 5, sha256: 'bb', content_type: 'text/css' },
  { path: 'old.js', size: 7, sha256: 'cc', content_type: 'text/javascript' },
  { path: 'grown.js', size: 7, sha256: 'dd', content_type: 'text/javascript' },
];
const chosen = [
  { path: 'index.html', size: 10, sha256: 'a0' },
  { path: 'same.css', size: 5, sha256: 'bb' },
  { path: 'grown.js', size: 9, sha256: undefined },
  { path: 'new.txt', size: 100, sha256: undefined },
  { path: '_headers', size: 30, sha256: undefined },
];

test('only what has the size of what is served has to be hashed', () => {
  expect([...undecided(served, chosen)]).toEqual(['index.html', 'same.css']);
});

test('files are added, changed by their content, or removed; rules are no files', () => {
  const found = difference('dep_1', served, chosen);
  expect(found.added).toEqual([{ path: 'new.txt', size: 100 }]);
  expect(found.changed).toEqual([
    { path: 'index.html', size: 10, size_before: 10 },
    { path: 'grown.js', size: 9, size_before: 7 },
  ]);
  expect(found.removed).toEqual([{ path: 'old.js', size_before: 7 }]);
  expect(growth(found)).toBe(100 + 2 - 7);
});
