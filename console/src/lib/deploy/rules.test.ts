import { readFileSync } from 'node:fs';
import { join } from 'node:path';
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

test('private files are known as `svc` knows them', () => {
  const cases = join(import.meta.dirname, '../../../../common/domain/src/private_files/cases.txt');
  const lines = readFileSync(cases, 'utf8').split('\n');
  const paths = lines.filter((line) => line !== '' && !line.startsWith('# '));
  expect(paths.length).toBeGreaterThan(100);
  for (const line of paths) {
    const path = line.slice(line.indexOf(' ') + 1);
    // What is there in any case, so that the folder of the path is part of it.
    const { files } = select(chosen(path, 'beside.html'));
    const isKnown = files.some((file) => file.path === path);
    expect([line, isKnown || path.includes('node_modules')]).toEqual([line, !line.startsWith('out ')]);
  }
});

test('an archive is sent as it is', () => {
  expect(select(chosen('site.ZIP')).archive).toBe('application/zip');
  expect(select(chosen('a.tar.gz')).archive).toBe('application/gzip');
  expect(select(chosen('a.tgz', 'b.zip')).archive).toBeUndefined();
  expect(select(chosen('index.html')).archive).toBeUndefined();
  expect(select(chosen('site/a.zip')).archive).toBeUndefined();
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
