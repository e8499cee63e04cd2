// Writes a tar archive (POSIX ustar, with pax headers for long names) as a stream. The same files give the same bytes.

const BLOCK = 512;
const encoder = new TextEncoder();

/** One file of an archive. */
export interface Entry {
  path: string;
  size: number;
  stream(): ReadableStream<Uint8Array<ArrayBuffer>>;
}

/** The archive of `entries`, made while it is read: no more than one chunk of a file is in memory. */
export function tar(entries: Entry[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  const parts = archive(entries);
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await parts.return(undefined);
    },
  });
}

async function* archive(entries: Entry[]): AsyncGenerator<Uint8Array<ArrayBuffer>, undefined> {
  for (const entry of entries) {
    const name = encoder.encode(entry.path);
    if (name.length > 100) {
      const record = paxRecord('path', entry.path);
      yield header(encoder.encode('pax'), record.length, 'x');
      yield padded(record);
    }
    yield header(name.subarray(0, 100), entry.size, '0');
    let written = 0;
    const reader = entry.stream().getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      written += value.length;
      yield value;
    }
    // The header has said how long it is.
    if (written !== entry.size) throw new Error(`${entry.path} changed while it was read. Choose it again.`);
    if (written % BLOCK > 0) yield new Uint8Array(BLOCK - (written % BLOCK));
  }
  yield new Uint8Array(2 * BLOCK);
  return undefined;
}

function header(name: Uint8Array, size: number, type: '0' | 'x'): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const text = (at: number, value: string) => block.set(encoder.encode(value), at);
  const octal = (at: number, digits: number, value: number) =>
    text(at, value.toString(8).padStart(digits, '0'));
  block.set(name, 0);
  octal(100, 7, 0o644);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(124, 11, size);
  octal(136, 11, 0);
  text(148, '        ');
  text(156, type);
  text(257, 'ustar\u000000');
  octal(
    148,
    6,
    block.reduce((sum, byte) => sum + byte, 0),
  );
  text(154, '\0 ');
  return block;
}

/** A pax record says its own length, in decimal, with the length's digits counted in. */
function paxRecord(key: string, value: string): Uint8Array<ArrayBuffer> {
  const rest = encoder.encode(` ${key}=${value}\n`).length;
  let length = rest;
  while (length !== rest + String(length).length) length = rest + String(length).length;
  return encoder.encode(`${length} ${key}=${value}\n`);
}

function padded(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(Math.ceil(bytes.length / BLOCK) * BLOCK);
  block.set(bytes);
  return block;
}
