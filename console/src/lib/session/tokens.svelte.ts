// Tokens: one's own keys for programs.

import { call, client } from '#lib/api/client.ts';
import type { Token } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

export const tokens = (): Resource<Token[]> =>
  resource('/tokens', async () =>
    (await call(client.GET('/tokens'))).tokens.filter((token) => !token.revoked_at),
  );
