// The files of a deployment as folders.

import type { DeployedFile } from '#lib/api/schema.d.ts';

export interface Folder {
  name: string;
  path: string;
  /** Of everything below it. */
  files: number;
  bytes: number;
  folders: Folder[];
  leaves: DeployedFile[];
}

/** The folder of all files; folders and files in the order of their names. */
export function tree(files: DeployedFile[]): Folder {
  const root = empty('', '');
  const known = new Map([['', root]]);
  for (const file of files) {
    let folder = count(root, file);
    const parts = file.path.split('/');
    for (let end = 1; end < parts.length; end += 1) {
      const path = parts.slice(0, end).join('/');
      let child = known.get(path);
      if (!child) {
        child = empty(parts[end - 1] ?? '', path);
        known.set(path, child);
        folder.folders.push(child);
      }
      folder = count(child, file);
    }
    folder.leaves.push(file);
  }
  for (const folder of known.values()) {
    folder.folders.sort((a, b) => a.name.localeCompare(b.name));
    folder.leaves.sort((a, b) => a.path.localeCompare(b.path));
  }
  return root;
}

const empty = (name: string, path: string): Folder => ({
  name,
  path,
  files: 0,
  bytes: 0,
  folders: [],
  leaves: [],
});

function count(folder: Folder, { size }: DeployedFile): Folder {
  folder.files += 1;
  folder.bytes += size;
  return folder;
}
