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

test('secrets are left out, examples of them are not', () => {
  const secret = ['.env.production', '.npmrc', '.ssh/config', 'a/id_rsa', 'a/b.pfx', '.bash_history', '.ENV'];
  const open = ['.env.example', 'a/id_card.png', 'environment.js', 'index.html', 'key.pem'];
  const { files, leftOut } = select(chosen(...[...secret, ...open].map((path) => `s/${path}`)));
  expect(files.map(({ path }) => path)).toEqual(open);
  expect(leftOut).toHaveLength(secret.length);
});

test('packages that a bundler put into a site are published, installed ones are not', () => {
  const paths = (...all: string[]) => select(chosen(...all)).files.map(({ path }) => path);
  const nested = 's/assets/node_modules/a/node_modules/b.ttf';
  expect(paths('s/index.html', nested, 's/assets/node_modules/a/package.json')).toHaveLength(3);
  expect(paths('s/index.html', 's/node_modules/a.js')).toEqual(['index.html']);
  expect(paths('s/i.html', 's/web/package.json', 's/web/node_modules/a.js')).toEqual([
    'i.html',
    'web/package.json',
  ]);
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
