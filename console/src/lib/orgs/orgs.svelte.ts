// Organizations: members, invites, tokens, installations.

import { call, client } from '#lib/api/client.ts';
import type { AuditLog, Installation, Invite, OrgDetail, OrgToken } from '#lib/api/schema.d.ts';
import { whole } from '#lib/api/whole.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

type Query = { cursor?: string };

const of = (name: string) => ({ params: { path: { name } } });
const pageOf = (name: string, query: Query) => ({ params: { path: { name }, query } });

export const org = (name: string): Resource<OrgDetail> =>
  resource(`/orgs/${name}`, () => call(client.GET('/orgs/{name}', of(name))));

export const invites = (name: string): Resource<Invite[]> =>
  resource(`/orgs/${name}/invites`, async () => {
    const pages = await whole((query) => call(client.GET('/orgs/{name}/invites', pageOf(name, query))));
    return pages.flatMap(({ invites }) => invites);
  });

export const orgTokens = (name: string): Resource<OrgToken[]> =>
  resource(`/orgs/${name}/tokens`, async () => {
    const pages = await whole((query) => call(client.GET('/orgs/{name}/tokens', pageOf(name, query))));
    return pages.flatMap(({ tokens }) => tokens);
  });

/** A page of the log: the newest one, or the one that a cursor names. */
export const auditPage = (name: string, query: Query = {}): Promise<AuditLog> =>
  call(client.GET('/orgs/{name}/audit', pageOf(name, query)));

export const orgAudit = (name: string): Resource<AuditLog> =>
  resource(`/orgs/${name}/audit`, () => auditPage(name));

export const orgInstallations = (name: string): Resource<Installation[]> =>
  resource(
    `/orgs/${name}/installations`,
    async () => (await call(client.GET('/orgs/{name}/installations', of(name)))).installations,
  );
