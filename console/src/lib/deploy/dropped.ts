// The files of what was dropped on the page, or chosen with a button.

import { isLeftOut, MOST_FILES, type Chosen } from './rules.ts';

/** All files below the dropped entries. Has to be called while the drop is handled: later the browser forgets them. */
export async function dropped(transfer: DataTransfer): Promise<Chosen[]> {
  const entries = [...transfer.items]
    .map((item) => item.webkitGetAsEntry())
    .filter((entry) => entry !== null);
  const found: Chosen[] = [];
  for (const entry of entries) await walk(entry, entry.name, found);
  return found;
}

export function picked(list: FileList): Chosen[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

async function walk(entry: FileSystemEntry, path: string, found: Chosen[]): Promise<void> {
  // One more than allowed is enough to say so. What is left out does not count: it may be most of a folder.
  if (found.length > MOST_FILES) return;
  if (isLeftOut(entry.name)) {
    found.push({ path, file: new File([], entry.name) });
    return;
  }
  if (entry instanceof FileSystemFileEntry || entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    found.push({ path, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A reader gives its entries in parts, an empty one at the end.
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (part.length === 0) return;
    for (const child of part) await walk(child, `${path}/${child.name}`, found);
  }
}
