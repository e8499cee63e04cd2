// The hash of everything the console is built from.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const SOURCES = [
  'src',
  'static',
  'build',
  'package.json',
  'package-lock.json',
  'vite.config.ts',
  'tsconfig.json',
];
/** Made from the API's description, which is hashed in its place. */
const GENERATED = 'schema.d.ts';

export function sourceHash(): string {
  const hash = createHash('sha256');
  for (const path of [
    ...SOURCES.map((source) => join(ROOT, source)),
    join(ROOT, '..', 'openapi.json'),
    join(ROOT, '..', 'common', 'templates', 'tokens.css'),
  ].flatMap(files)) {
    hash.update(path.slice(ROOT.length)).update('\0').update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex').slice(0, 16);
}

function files(path: string): string[] {
  let entries;
  try {
    entries = readdirSync(path, { withFileTypes: true });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    return code === 'ENOTDIR' ? [path] : [];
  }
  return entries
    .filter((entry) => entry.name !== GENERATED)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => files(join(path, entry.name)));
}
