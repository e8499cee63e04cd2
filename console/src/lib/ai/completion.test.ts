import { expect, test } from 'vitest';
import { events } from './completion.ts';

async function read(...parts: string[]): Promise<string[]> {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      for (const part of parts) controller.enqueue(encoder.encode(part));
      controller.close();
    },
  });
  return Array.fromAsync(events(body));
}

test('events are read wherever the network cuts them', async () => {
  expect(await read('data: {"a"', ':1}\n', '\ndata: two\r\n\r\n: remark\n\ndata:three\n\n')).toEqual([
    '{"a":1}',
    'two',
    'three',
  ]);
});

test('an event that was not ended is none', async () => {
  expect(await read('data: one\n\ndata: half')).toEqual(['one']);
});
