// The API, with the types of its description. The console's host serves it under /api, signed in by the session's cookie.

import createClient from 'openapi-fetch';
import { fetchSignedIn } from '#lib/session/ended.svelte.ts';
import type { paths } from './schema.d.ts';
import { Problem } from './problem.ts';

export const client = createClient<paths>({
  baseUrl: '/api',
  credentials: 'same-origin',
  fetch: fetchSignedIn,
});

/** An answer of `openapi-fetch`: data, or the error's envelope, with the answer it came in. */
interface Answer<T> {
  data?: T | undefined;
  error?: unknown;
  response: Response;
}

/** The data of a call. Whatever else becomes of it is thrown as a {@link Problem}. */
export async function call<T>(request: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await request;
  } catch {
    throw Problem.offline();
  }
  if (answer.error !== undefined || !answer.response.ok) throw Problem.of(answer.response, answer.error);
  return answer.data as T;
}

/** `3/3; 9ms`, as the API tells in `X-Svc-Propagation`, in words. */
export function propagation(response: Response): string | undefined {
  const header = /^(\d+)\/(\d+); (\d+)ms$/.exec(response.headers.get('X-Svc-Propagation') ?? '');
  return header
    ? `live on ${header[1]} of ${header[2]} ${header[2] === '1' ? 'edge' : 'edges'}, ${header[3]} ms`
    : undefined;
}
