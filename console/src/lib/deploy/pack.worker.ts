// Hashes and packs files in a thread of its own, so that the page stays quick: tar, then gzip, as a stream into a blob, which browsers
// keep on disk when it is large.

import type { Chosen } from './rules.ts';
import { tar } from './tar.ts';

export interface ToWorker {
  act: 'hash' | 'pack';
  files: Chosen[];
}

export type FromWorker =
  | { kind: 'progress'; read: number }
  | { kind: 'hashed'; hashes: [path: string, sha256: string][] }
  | { kind: 'packed'; blob: Blob }
  | { kind: 'failed'; message: string };

/** A message at most for every so many bytes that were read. */
const REPORT_BYTES = 512 * 1024;

const tell = (message: FromWorker) => postMessage(message);

addEventListener('message', async ({ data }: MessageEvent<ToWorker>) => {
  try {
    if (data.act === 'hash') tell({ kind: 'hashed', hashes: await hash(data.files) });
    else tell({ kind: 'packed', blob: await pack(data.files) });
  } catch (thrown) {
    tell({
      kind: 'failed',
      message: thrown instanceof Error ? thrown.message : 'The files could not be read.',
    });
  }
});

/** One file after another: a site's largest file is small enough to be in memory, all of them are not. */
async function hash(files: Chosen[]): Promise<[string, string][]> {
  const hashes: [string, string][] = [];
  let read = 0;
  for (const { path, file } of files) {
    const digest = await crypto.subtle.digest('SHA-256', await file.arrayBuffer());
    hashes.push([
      path,
      [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join(''),
    ]);
    read += file.size;
    tell({ kind: 'progress', read });
  }
  return hashes;
}

async function pack(files: Chosen[]): Promise<Blob> {
  let read = 0;
  let reported = 0;
  const count = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      read += chunk.length;
      if (read - reported >= REPORT_BYTES) {
        reported = read;
        tell({ kind: 'progress', read });
      }
      controller.enqueue(chunk);
    },
  });
  const entries = files.map(({ path, file }) => ({ path, size: file.size, stream: () => file.stream() }));
  const packed = tar(entries).pipeThrough(count).pipeThrough(new CompressionStream('gzip'));
  return new Response(packed).blob();
}
