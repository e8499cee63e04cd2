import { expect, test } from 'vitest';
import { select } from './rules.ts';

const chosen = (...paths: string[]) => paths.map((path) => ({ path, file: new File(['x'], path) }));

test('the folder that was dropped is not part of the paths', () => {
  expect(select(chosen('site/index.html', 'site/a/b.css')).files.map(({ path }) => path)).toEqual([
    'a/b.css',
    'index.html',
  ]);
  expect(select(chosen('index.html', 'a/b.css')).files.map(({ path }) => path)).toEqual([
    'a/b.css',
    'index.html',
  ]);
});

test('what is no part of a site is left out and told', () => {
  const { files, leftOut } = select(
    chosen('s/i.html', 's/.git/x', 's/.git/y', 's/.env.local', 's/node_modules/a/b.js', 's/.well-known/x'),
  );
  expect(files.map(({ path }) => path)).toEqual(['.well-known/x', 'i.html']);
  expect(leftOut).toEqual(['.env.local', '.git', 'node_modules']);
});

test('what the API would refuse is said before anything is sent', () => {
  expect(select([]).problems).toEqual(['There is no file in it.']);
  expect(select(chosen('s/a\u0007b')).problems[0]).toContain('control character');
  const large = {
    path: 's/film.mp4',
    file: Object.defineProperty(new File([], 'film.mp4'), 'size', { value: 30e6 }),
  };
  expect(select([large]).problems[0]).toBe('film.mp4 is larger than the 25 MB a file may have.');
});
