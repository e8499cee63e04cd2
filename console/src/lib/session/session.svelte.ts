// Who is signed in, and for whom the console is looked at.

import { goto } from '$app/navigation';
import { page } from '$app/state';
import { call, client } from '#lib/api/client.ts';
import type { Account, Org, Role } from '#lib/api/schema.d.ts';
import { whole } from '#lib/api/whole.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';
import { session } from './ended.svelte.ts';

export const me = (): Resource<Account> =>
  resource('/me', async () => {
    const account = await call(client.GET('/me'));
    session.isOf(account.id);
    return account;
  });

export const orgs = (): Resource<Org[]> =>
  resource('/orgs', async () => {
    const pages = await whole((query) => call(client.GET('/orgs', { params: { query } })));
    return pages.flatMap(({ orgs }) => orgs);
  });

/** The organization that the home page shows, from the address; `undefined` is oneself. */
export function scope(): string | undefined {
  return page.url.searchParams.get('org') ?? undefined;
}

/** The organization that was looked at last, for the pages that belong to nobody. */
let last: string | undefined;

/** For whom the console is looked at: as the address says, or as it was before on a page that belongs to nobody. */
export function chosenScope(): string | undefined {
  const route = page.route.id ?? '';
  if (route.startsWith('/(app)/orgs/')) last = page.params['name'];
  else if (NOBODYS.every((path) => !route.startsWith(path))) last = scope();
  return last;
}

const NOBODYS = ['/(app)/docs', '/(app)/account', '/(app)/shares', '/(app)/sites/'];

/** The pages of an organization, or of oneself. */
export const placesOf = (org: string | undefined) => ({
  sites: org ? `/?org=${encodeURIComponent(org)}` : '/',
  ai: org ? `/orgs/${org}/usage` : '/ai',
  billing: org ? `/orgs/${org}/billing` : '/billing',
});

/** Looks at the console for another, on the same page if there is one. */
export function setScope(org: string | undefined): Promise<void> {
  const [path, places] = [page.url.pathname, placesOf(org)];
  if (path.endsWith('/billing')) return goto(places.billing);
  if (path === '/ai' || path.endsWith('/usage')) return goto(places.ai);
  return goto(places.sites);
}

/** The role in an organization, as far as it is known; one is the owner of what is one's own. */
export function roleIn(org: string | null | undefined, mine: Org[] | undefined): Role | undefined {
  return org ? mine?.find(({ name }) => name === org)?.role : 'owner';
}

/** Whether the role manages: an admin or an owner. */
export const isManager = (role: Role | undefined): boolean => role === 'admin' || role === 'owner';
