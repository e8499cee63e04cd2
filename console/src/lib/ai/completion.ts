// A completion as it comes: a stream of events, each with a piece of the answer.

import { Problem } from '#lib/api/problem.ts';
import { session } from '#lib/session/ended.svelte.ts';

/** The gateway's word for a key that it does not know. */
const KEY_REFUSED = 'invalid_api_key';

/** A piece of the answer's text, or at its end what it has used. */
export interface Piece {
  text: string;
  usage: { prompt_tokens: number; completion_tokens: number } | undefined;
}

interface Chunk {
  choices?: { delta?: { content?: string | null } }[];
  usage?: Piece['usage'] | null;
  error?: { code?: string | null; message?: string };
}

/** Asks a model, as the owner of the key; the pieces come as they are written. */
export async function* complete(
  key: string,
  model: string,
  prompt: string,
  signal: AbortSignal,
): AsyncGenerator<Piece> {
  const request = {
    model,
    messages: [{ role: 'user', content: prompt }],
    stream: true,
    stream_options: { include_usage: true },
  };
  for await (const data of events(await begin(JSON.stringify({ key, request }), signal))) {
    if (data === '[DONE]') return;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error)
      throw new Problem(chunk.error.code ?? 'gateway', chunk.error.message ?? 'The answer broke off.', 0);
    const text = chunk.choices?.[0]?.delta?.content ?? '';
    if (text || chunk.usage) yield { text, usage: chunk.usage ?? undefined };
  }
}

/** Not by the client, which takes each 401 for the end of the session: here the key may be refused. */
async function begin(body: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  for (;;) {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await fetch('/api/ai/try', { method: 'POST', headers, body, signal }).catch(
      (thrown: unknown) => {
        throw signal.aborted ? thrown : Problem.offline();
      },
    );
    if (answer.ok && answer.body) return answer.body;
    const problem = Problem.of(answer, await answer.json().catch(() => undefined));
    if (!problem.isSignedOut || problem.code === KEY_REFUSED) throw problem;
    await session.end();
  }
}

/** The data of each server-sent event. */
export async function* events(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + (value ?? '')).split(/\r?\n/);
      rest = done ? '' : (lines.pop() ?? '');
      for (const line of lines) {
        if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
        else if (line === '' && data.length > 0) {
          yield data.join('\n');
          data = [];
        }
      }
      if (done) return;
    }
  } finally {
    await reader.cancel();
  }
}
