// A piece of work for the worker: begun, followed, and stopped when nobody wants it any more.

import { Problem } from '#lib/api/problem.ts';
import type { FromWorker, ToWorker } from './pack.worker.ts';
import { startPackWorker } from './worker.ts';

type Result<Kind> = Extract<FromWorker, { kind: Kind }>;

/** The worker's result for `work`. `read` is told how many bytes were read. */
export function inWorker<Kind extends 'hashed' | 'packed'>(
  work: ToWorker,
  kind: Kind,
  read: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Result<Kind>> {
  const worker = startPackWorker();
  const done = new Promise<Result<Kind>>((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
    worker.onerror = () => reject(new Problem('pack', 'The files could not be read.', 0));
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.kind === 'progress') read(data.read);
      else if (data.kind === kind) resolve(data as Result<Kind>);
      else if (data.kind === 'failed') reject(new Problem('pack', data.message, 0));
    };
    worker.postMessage(work);
  });
  return done.finally(() => worker.terminate());
}
