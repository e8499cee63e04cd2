// What may be in a site, judged before anything is sent; the API judges again.

import { bytes, count, counted, MB } from '#lib/format.ts';
import { isPrivate } from './private.ts';

export const FILE_BYTES = 25 * MB;
export const SITE_BYTES = 250 * MB;
export const ARCHIVE_BYTES = 100 * MB;
export const MOST_FILES = 10_000;
const NAME_BYTES = 1024;

/** Files and folders that are left out beside those that are private, as `svc deploy` leaves them out; in small letters. */
const LEFT_OUT = new Set([
  ...['.svc', '.svcproject'],
  // What systems and editors keep.
  ...['.ds_store', 'icon\r', 'thumbs.db', 'ehthumbs.db', 'desktop.ini', '__macosx', '.spotlight-v100'],
  ...['.trashes', '.fseventsd', '.temporaryitems', '.idea', '.vscode', '.htaccess'],
]);
/** Archives, which are published as what they hold, and how they are sent. */
const ARCHIVES = [
  { form: /\.zip$/i, type: 'application/zip' },
  { form: /\.(tar\.gz|tgz)$/i, type: 'application/gzip' },
  { form: /\.(tar\.zst|tzst)$/i, type: 'application/zstd' },
];
const NODE_MODULES = 'node_modules';
const PACKAGE_FILE = 'package.json';
/** Patterns of what is not published, which are not read here. */
const IGNORE_FILE = '.svcignore';

/** Whether files and folders of this name are left out, in a folder of that name. */
export function isLeftOut(part: string, folder: string): boolean {
  return LEFT_OUT.has(part.toLowerCase()) || part.startsWith('._') || isPrivate(part, folder);
}

/**
 * Whether a folder holds installed packages: at the root of what is published, and beside a `package.json`. Others are parts of
 * what a bundler made.
 */
export function isInstalled(name: string, depth: number, siblings: Iterable<string>): boolean {
  return name === NODE_MODULES && (depth === 0 || [...siblings].includes(PACKAGE_FILE));
}

/** A file that was chosen, with its path inside the site. */
export interface Chosen {
  path: string;
  file: File;
}

export interface Selection {
  files: Chosen[];
  bytes: number;
  /** The media type of the one file, if it is an archive that is sent as it is. */
  archive?: string;
  /** Paths that are left out on purpose. */
  leftOut: string[];
  /** The faults to be mended first, as sentences. */
  problems: string[];
}

/** Judges what was chosen. A folder that holds everything is taken off the paths: its content is the site. */
export function select(chosen: Chosen[]): Selection {
  const [only] = chosen;
  const archive = ARCHIVES.find(
    ({ form }) => only && chosen.length === 1 && !only.path.includes('/') && form.test(only.path),
  );
  if (only && archive) {
    const isLarge = only.file.size > ARCHIVE_BYTES;
    const problems = isLarge
      ? [`${only.path} is larger than the ${bytes(ARCHIVE_BYTES)} an archive may have.`]
      : [];
    return { files: [only], bytes: only.file.size, archive: archive.type, leftOut: [], problems };
  }
  const skipped = depth(chosen);
  const inside = chosen.map(({ path, file }) => ({ path: path.split('/').slice(skipped).join('/'), file }));
  const leftOut = new Set<string>();
  const files: Chosen[] = [];
  const problems: string[] = [];
  const packages = new Set(
    inside.filter(({ path }) => `/${path}`.endsWith(`/${PACKAGE_FILE}`)).map(({ path }) => folderOf(path)),
  );
  for (const { path, file } of inside) {
    const parts = path.split('/');
    const modules = parts.indexOf(NODE_MODULES);
    const beside = packages.has(parts.slice(0, modules).join('/')) ? [PACKAGE_FILE] : [];
    // What is within one that is published goes with it.
    const isOut = (part: string, at: number) =>
      isLeftOut(part, parts[at - 1] ?? '') || (at === modules && isInstalled(part, at, beside));
    const end = parts.findIndex(isOut);
    if (end >= 0) {
      leftOut.add(parts.slice(0, end + 1).join('/'));
      continue;
    }
    if (parts.at(-1) === IGNORE_FILE) {
      problems.push('This folder has a .svcignore, which only `svc deploy` follows: publish it with that.');
    }
    const wrong = wrongWith(path, file);
    if (wrong) problems.push(wrong);
    files.push({ path, file });
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  const total = files.reduce((sum, { file }) => sum + file.size, 0);
  if (files.length === 0) problems.push('There is no file in it.');
  if (files.length > MOST_FILES)
    problems.push(`${counted(files.length, 'file')} are more than the ${count(MOST_FILES)} a site may have.`);
  if (total > SITE_BYTES)
    problems.push(`The files are larger than the ${bytes(SITE_BYTES)} a site may have.`);
  return { files, bytes: total, leftOut: [...leftOut].sort(), problems: problems.slice(0, 20) };
}

function folderOf(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}

/** 1 when everything lies in one folder. */
function depth(chosen: Chosen[]): 0 | 1 {
  const first = chosen[0]?.path.split('/')[0];
  const isFolder = chosen.every(({ path }) => path.includes('/') && path.split('/')[0] === first);
  return chosen.length > 0 && isFolder ? 1 : 0;
}

function wrongWith(path: string, file: File): string | undefined {
  if (/[\u0000-\u001f\u007f]/.test(path))
    return `The name of ${JSON.stringify(path)} has a control character in it.`;
  if (new TextEncoder().encode(path).length > NAME_BYTES)
    return `The path of ${path.slice(0, 60)}… is longer than ${NAME_BYTES} bytes.`;
  if (file.size > FILE_BYTES) return `${path} is larger than the ${bytes(FILE_BYTES)} a file may have.`;
  return undefined;
}
