// Who is signed in, and for whom the console is looked at.

import { goto } from '$app/navigation';
import { page } from '$app/state';
import { call, client } from '#lib/api/client.ts';
import type { Account, Org, Role } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';
import { session } from './ended.svelte.ts';

export const me = (): Resource<Account> =>
  resource('/me', async () => {
    const account = await call(client.GET('/me'));
    session.isOf(account.id);
    return account;
  });

export const orgs = (): Resource<Org[]> =>
  resource('/orgs', async () => (await call(client.GET('/orgs'))).orgs);

/** The organization that the home page shows, from the address; `undefined` is oneself. */
export function scope(): string | undefined {
  return page.url.searchParams.get('org') ?? undefined;
}

export function setScope(org: string | undefined): Promise<void> {
  return goto(org ? `/?org=${encodeURIComponent(org)}` : '/');
}

/** The role in an organization, as far as it is known; one is the owner of what is one's own. */
export function roleIn(org: string | null | undefined, mine: Org[] | undefined): Role | undefined {
  return org ? mine?.find(({ name }) => name === org)?.role : 'owner';
}

/** Whether the role manages: an admin or an owner. */
export const isManager = (role: Role | undefined): boolean => role === 'admin' || role === 'owner';
