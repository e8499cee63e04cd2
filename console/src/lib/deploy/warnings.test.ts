import { expect, test } from 'vitest';
import { select } from './rules.ts';
import { proposedName, warnings } from './warnings.ts';

const of = (...paths: string[]) =>
  warnings(select(paths.map((path) => ({ path, file: new File(['x'], path) }))));

test('a site whose front page is missing says so before', () => {
  expect(of('a/index.html', 'a/x.html')).toEqual([]);
  expect(of('report.html')).toEqual([expect.stringContaining('/report.html')]);
  expect(of('notes.txt')).toEqual([expect.stringContaining('404')]);
  expect(of('a/dist/index.html', 'a/package.json')).toEqual([expect.stringContaining('dist/')]);
  expect(of('site.zip')).toEqual([]);
});

test('a name is proposed when the folder has one', () => {
  expect(proposedName(['My Notes/index.html', 'My Notes/a.html'])).toBe('my-notes');
  expect(proposedName(['Über uns.html'])).toBe('uber-uns');
  expect(proposedName(['corner-shop.zip'])).toBe('corner-shop');
  expect(proposedName(['dist/index.html'])).toBe('');
  expect(proposedName(['a.html', 'b.html'])).toBe('');
});
