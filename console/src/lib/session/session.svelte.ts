// Who is signed in, and for whom the console is looked at.

import { goto } from '$app/navigation';
import { page } from '$app/state';
import { call, client } from '#lib/api/client.ts';
import type { Account, Org } from '#lib/api/schema.d.ts';
import { forgetAll, resource, type Resource } from '#lib/store.svelte.ts';

export const me = (): Resource<Account> => resource('/me', () => call(client.GET('/me')));

export const orgs = (): Resource<Org[]> =>
  resource('/orgs', async () => (await call(client.GET('/orgs'))).orgs);

/** The page that signs people in, and brings them back to where they are. */
export function signInPath(): string {
  return `/sign-in?return_to=${encodeURIComponent(page.url.pathname + page.url.search)}`;
}

/** Leaves for the sign-in page: it is rendered by the server, not one of ours. */
export function signIn(): void {
  forgetAll();
  location.assign(signInPath());
}

/** The organization that the home page shows, from the address; `undefined` is oneself. */
export function scope(): string | undefined {
  return page.url.searchParams.get('org') ?? undefined;
}

export function setScope(org: string | undefined): Promise<void> {
  return goto(org ? `/?org=${encodeURIComponent(org)}` : '/');
}
