// What publishing would change: the chosen files against those that the site serves.

import { Problem } from '#lib/api/problem.ts';
import type { DeploymentChanges } from '#lib/api/schema.d.ts';
import { files } from '#lib/sites/sites.svelte.ts';
import { difference, undecided } from './diff.ts';
import type { Chosen } from './rules.ts';
import { inWorker } from './work.ts';

export class Comparison {
  result = $state.raw<DeploymentChanges | undefined>();
  problem = $state.raw<Problem | undefined>();
  /** The part of the files that is hashed, from 0 to 1. */
  progress = $state(0);
  #stop: AbortController | undefined;

  /** Compares with a deployment, in the place of what was compared before. */
  async run(site: string, deployment: string, chosen: Chosen[]): Promise<void> {
    this.clear();
    const stop = new AbortController();
    this.#stop = stop;
    try {
      const served = files(site, deployment);
      if (served.data === undefined) await served.refresh();
      if (served.data === undefined) throw served.problem;
      const sized = chosen.map(({ path, file }) => ({ path, size: file.size }));
      const paths = undecided(served.data, sized);
      const unknown = chosen.filter(({ path }) => paths.has(path));
      const total = unknown.reduce((sum, { file }) => sum + file.size, 0);
      const progress = (read: number) => (this.progress = total > 0 ? read / total : 1);
      stop.signal.throwIfAborted();
      const work = { act: 'hash', files: unknown } as const;
      const { hashes } = await inWorker(work, 'hashed', progress, stop.signal);
      const known = new Map(hashes);
      const candidates = sized.map((file) => ({ ...file, sha256: known.get(file.path) }));
      this.result = difference(deployment, served.data, candidates);
    } catch (thrown) {
      if (!stop.signal.aborted) this.problem = Problem.from(thrown);
    }
  }

  clear(): void {
    this.#stop?.abort();
    this.result = undefined;
    this.problem = undefined;
    this.progress = 0;
  }
}
