// What went wrong with a call, as a person is told.

import { inWordsOfForms } from './fields.ts';
import { retryAfter } from './pace.svelte.ts';

/** A call that failed: a sentence, the API's code, and the request's id for whoever is asked for help. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status: number,
    readonly requestId: string | undefined = undefined,
  ) {
    super(message);
  }

  static of(response: Response, body: unknown): Problem {
    const id = response.headers.get('X-Request-Id') ?? undefined;
    const error = envelope(body);
    // The page waits by itself where it can: what is left is for a person, who reads no headers.
    if (response.status === 429 || error?.message.includes('Retry-After')) {
      const wait = Math.ceil((retryAfter(response.headers, Date.now()) ?? 0) / 1000);
      const when =
        wait > 1 ? `in ${wait < 100 ? `${wait} seconds` : `${Math.ceil(wait / 60)} minutes`}` : 'in a moment';
      return new Problem(
        error?.code ?? 'busy',
        `The server is busy. Try again ${when}.`,
        response.status,
        id,
      );
    }
    if (error) return new Problem(error.code, inWordsOfForms(error.message), response.status, id);
    return new Problem(
      'unreadable',
      `The server answered ${response.status} without saying why.`,
      response.status,
      id,
    );
  }

  static offline(): Problem {
    return new Problem(
      'offline',
      'The server cannot be reached. Check your connection; nothing was changed.',
      0,
    );
  }

  /** Any thrown value as a problem. */
  static from(thrown: unknown): Problem {
    if (thrown instanceof Problem) return thrown;
    return new Problem(
      'unexpected',
      thrown instanceof Error ? thrown.message : 'Something unexpected happened.',
      0,
    );
  }

  get isSignedOut(): boolean {
    return this.status === 401;
  }
}

function envelope(body: unknown): { code: string; message: string } | undefined {
  if (typeof body !== 'object' || body === null || !('error' in body)) return undefined;
  const { error } = body;
  if (typeof error !== 'object' || error === null || !('code' in error) || !('message' in error))
    return undefined;
  return { code: String(error.code), message: String(error.message) };
}
