import { expect, test } from 'vitest';
import { dropped } from './dropped.ts';

// As Chromium has them: objects of classes that no page can name.
const file = (name: string) => ({
  name,
  isFile: true,
  isDirectory: false,
  file: (resolve: (file: File) => void) => resolve(new File(['x'], name)),
});
const folder = (name: string, children: object[]) => ({
  name,
  isFile: false,
  isDirectory: true,
  createReader: () => {
    const parts = [children.slice(0, 1), children.slice(1), []];
    return { readEntries: (resolve: (part: object[]) => void) => resolve(parts.shift() ?? []) };
  },
});
const paths = async (...entries: object[]) =>
  (await dropped({ entries: entries as FileSystemEntry[], files: [] })).map(({ path }) => path);

test('folders are walked to their end, whatever classes the browser has', async () => {
  const dropped = folder('public', [
    file('index.html'),
    folder('notes', [file('a.html'), file('b.html')]),
    folder('.well-known', [file('security.txt')]),
  ]);
  expect(await paths(dropped)).toEqual([
    'public/index.html',
    'public/notes/a.html',
    'public/notes/b.html',
    'public/.well-known/security.txt',
  ]);
});

test('several things at once keep their names', async () => {
  expect(await paths(file('index.html'), folder('css', [file('a.css')]))).toEqual([
    'index.html',
    'css/a.css',
  ]);
});

test('installed packages are named once, and not read', async () => {
  const modules = folder('node_modules', [file('x.js')]);
  expect(await paths(folder('site', [file('package.json'), modules]))).toEqual([
    'site/package.json',
    'site/node_modules',
  ]);
});

test('a browser without entries gives its files', async () => {
  const files = [new File(['x'], 'report.html')];
  expect((await dropped({ entries: [], files })).map(({ path }) => path)).toEqual(['report.html']);
});
