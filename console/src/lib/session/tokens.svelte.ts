// Tokens: one's own keys for programs. Sessions: the browsers in which one is signed in. Installations: what the code host lets us read.

import { call, client } from '#lib/api/client.ts';
import type { Installation, Session, Token, UserTokenKind } from '#lib/api/schema.d.ts';
import { whole } from '#lib/api/whole.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

export const tokens = (): Resource<Token[]> =>
  resource('/tokens', async () => {
    const pages = await whole((query) => call(client.GET('/tokens', { params: { query } })));
    return pages.flatMap(({ tokens }) => tokens.filter((token) => !token.revoked_at));
  });

/** What a form asks of a token, beside its kind: the limits are of tokens for the AI gateway. */
export interface TokenWishes {
  label?: string;
  monthly_limit_cents?: number;
  gateway_body_bytes?: number;
  gateway_max_tokens?: number;
}

/** Makes a token; its secret is told this once. */
export async function createToken(kind: string, wishes: TokenWishes): Promise<string> {
  const body = { kind: kind as UserTokenKind, ...wishes };
  return (await call(client.POST('/tokens', { body }))).token;
}

export const revokeToken = (id: string) => call(client.DELETE('/tokens/{id}', { params: { path: { id } } }));

export const sessions = (): Resource<Session[]> =>
  resource('/sessions', async () => (await call(client.GET('/sessions'))).sessions);

export const installations = (): Resource<Installation[]> =>
  resource('/vcs', async () => (await call(client.GET('/vcs'))).installations);
