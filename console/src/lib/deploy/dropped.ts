// The files of what was dropped on the page, or chosen with a button.

import type { Dropped } from './handed.svelte.ts';
import { isInstalled, isLeftOut, MOST_FILES, type Chosen } from './rules.ts';

/** All files below the dropped entries. */
export async function dropped({ entries, files }: Dropped): Promise<Chosen[]> {
  if (entries.length === 0) return files.map((file) => ({ path: file.name, file }));
  const found: Chosen[] = [];
  // A folder that was dropped alone is the root.
  const root = entries.length === 1 && entries[0]?.isDirectory ? -1 : 0;
  for (const entry of entries) await walk(entry, entry.name, root, entries, found);
  return found;
}

export function picked(list: FileList): Chosen[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

// The classes of entries have no name in Chromium: what an entry is, it says itself.
const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;
const isFolder = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory;

async function walk(
  entry: FileSystemEntry,
  path: string,
  depth: number,
  siblings: FileSystemEntry[],
  found: Chosen[],
): Promise<void> {
  // One more than allowed is enough to say so. What is left out does not count: it may be most of a folder.
  if (found.length > MOST_FILES) return;
  const names = siblings.map(({ name }) => name);
  const isWithin = path.split('/').slice(0, -1).includes('node_modules');
  if (
    isLeftOut(entry.name, path.split('/').at(-2) ?? '') ||
    (!isWithin && isInstalled(entry.name, depth, names))
  ) {
    found.push({ path, file: new File([], entry.name) });
    return;
  }
  if (isFile(entry)) {
    found.push({ path, file: await new Promise<File>((resolve, reject) => entry.file(resolve, reject)) });
    return;
  }
  if (!isFolder(entry)) return;
  const reader = entry.createReader();
  const children: FileSystemEntry[] = [];
  for (;;) {
    // A reader gives its entries in parts, an empty one at the end.
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (part.length === 0) break;
    children.push(...part);
  }
  for (const child of children) await walk(child, `${path}/${child.name}`, depth + 1, children, found);
}
