// How what was chosen differs from what a site serves.

import type { DeployedFile, DeploymentChanges } from '#lib/api/schema.d.ts';

/** Rules for the whole site, which are not among a deployment's files. */
const RULES = new Set(['_headers', '_redirects']);

/** A chosen file; its hash is known when it may be the same as a file that is served. */
export interface Candidate {
  path: string;
  size: number;
  sha256: string | undefined;
}

/** The paths that have to be hashed: those of which the size says nothing. */
export function undecided(served: DeployedFile[], chosen: { path: string; size: number }[]): Set<string> {
  const sizes = new Map(served.map(({ path, size }) => [path, size]));
  return new Set(chosen.filter(({ path, size }) => sizes.get(path) === size).map(({ path }) => path));
}

export function difference(against: string, served: DeployedFile[], chosen: Candidate[]): DeploymentChanges {
  const before = new Map(served.map((file) => [file.path, file]));
  const after = new Set(chosen.map(({ path }) => path));
  const compared = chosen.filter(({ path }) => !RULES.has(path));
  const added = compared.filter(({ path }) => !before.has(path)).map(({ path, size }) => ({ path, size }));
  const changed = compared.flatMap(({ path, size, sha256 }) => {
    const old = before.get(path);
    return old && old.sha256 !== sha256 ? [{ path, size, size_before: old.size }] : [];
  });
  const removed = served
    .filter(({ path }) => !after.has(path))
    .map(({ path, size }) => ({ path, size_before: size }));
  return {
    against,
    added,
    changed,
    removed,
    added_files: added.length,
    changed_files: changed.length,
    removed_files: removed.length,
    truncated: false,
  };
}

/** Bytes that the site has more of, or fewer. */
export function growth({ added, changed, removed }: DeploymentChanges): number {
  return (
    added.reduce((sum, { size }) => sum + size, 0) +
    changed.reduce((sum, { size, size_before }) => sum + size - size_before, 0) -
    removed.reduce((sum, { size_before }) => sum + size_before, 0)
  );
}
