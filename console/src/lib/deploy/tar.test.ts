import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tar, type Entry } from './tar.ts';

const entry = (path: string, text: string): Entry => {
  const blob = new Blob([text]);
  return { path, size: blob.size, stream: () => blob.stream() };
};

test('the system’s tar reads every file back, long and foreign names too', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tar-'));
  const long = `${'deep/'.repeat(40)}ünï.txt`;
  const files: [string, string][] = [
    ['a.txt', 'x'],
    ['empty', ''],
    ['block', 'y'.repeat(512)],
    [long, 'far down'],
  ];
  const archive = await new Response(tar(files.map(([path, text]) => entry(path, text)))).arrayBuffer();
  writeFileSync(join(folder, 'a.tar'), new Uint8Array(archive));
  execFileSync('tar', ['-xf', 'a.tar'], { cwd: folder });
  for (const [path, text] of files) expect(readFileSync(join(folder, path), 'utf8')).toBe(text);
  rmSync(folder, { recursive: true });
});

test('a file that changes while it is read ends the archive', async () => {
  const changed = { ...entry('a', 'longer than said'), size: 3 };
  await expect(new Response(tar([changed])).arrayBuffer()).rejects.toThrow('changed while it was read');
});
