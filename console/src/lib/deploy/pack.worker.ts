// Packs files in a thread of its own, so that the page stays quick: tar, then gzip, as a stream into a blob, which browsers keep on disk
// when it is large.

import type { Chosen } from './rules.ts';
import { tar } from './tar.ts';

export type FromWorker =
  { kind: 'progress'; read: number } | { kind: 'done'; blob: Blob } | { kind: 'failed'; message: string };

/** A message at most for every so many bytes that were read. */
const REPORT_BYTES = 512 * 1024;

addEventListener('message', async ({ data }: MessageEvent<Chosen[]>) => {
  const tell = (message: FromWorker) => postMessage(message);
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
  try {
    const entries = data.map(({ path, file }) => ({ path, size: file.size, stream: () => file.stream() }));
    const packed = tar(entries).pipeThrough(count).pipeThrough(new CompressionStream('gzip'));
    tell({ kind: 'done', blob: await new Response(packed).blob() });
  } catch (thrown) {
    tell({
      kind: 'failed',
      message: thrown instanceof Error ? thrown.message : 'The files could not be read.',
    });
  }
});
