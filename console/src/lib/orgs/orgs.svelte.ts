// Organizations: members, invites, tokens, installations.

import { call, client } from '#lib/api/client.ts';
import type { AuditEntry, Installation, Invite, OrgDetail, OrgToken } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

const of = (name: string) => ({ params: { path: { name } } });

export const org = (name: string): Resource<OrgDetail> =>
  resource(`/orgs/${name}`, () => call(client.GET('/orgs/{name}', of(name))));

export const invites = (name: string): Resource<Invite[]> =>
  resource(
    `/orgs/${name}/invites`,
    async () => (await call(client.GET('/orgs/{name}/invites', of(name)))).invites,
  );

export const orgTokens = (name: string): Resource<OrgToken[]> =>
  resource(
    `/orgs/${name}/tokens`,
    async () => (await call(client.GET('/orgs/{name}/tokens', of(name)))).tokens,
  );

export const orgAudit = (name: string): Resource<AuditEntry[]> =>
  resource(
    `/orgs/${name}/audit`,
    async () => (await call(client.GET('/orgs/{name}/audit', of(name)))).entries,
  );

export const orgInstallations = (name: string): Resource<Installation[]> =>
  resource(
    `/orgs/${name}/installations`,
    async () => (await call(client.GET('/orgs/{name}/installations', of(name)))).installations,
  );
