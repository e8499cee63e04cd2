// Sites: projects as people think of them.

import { call, client } from '#lib/api/client.ts';
import type {
  AuditEntry,
  DeploymentList,
  EnvVar,
  LiveStats,
  Project,
  ProjectDetail,
  Share,
} from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

/** All sites that one sees, one's own and those of one's organizations, newest first. */
export const sites = (): Resource<Project[]> =>
  resource('/projects', async () => {
    const all: Project[] = [];
    let cursor: string | undefined;
    do {
      const query = cursor ? { cursor } : {};
      const part = await call(client.GET('/projects', { params: { query } }));
      all.push(...part.projects);
      cursor = part.next_cursor ?? undefined;
    } while (cursor);
    return all;
  });

export const site = (name: string): Resource<ProjectDetail> =>
  resource(`/projects/${name}`, () => call(client.GET('/projects/{name}', { params: { path: { name } } })));

export const today = (name: string): Resource<LiveStats> =>
  resource(`/projects/${name}/stats?hours=24`, () =>
    call(client.GET('/projects/{name}/stats', { params: { path: { name }, query: { hours: 24 } } })),
  );

export const deployments = (name: string): Resource<DeploymentList> =>
  resource(`/projects/${name}/deployments`, () =>
    call(client.GET('/projects/{name}/deployments', { params: { path: { name } } })),
  );

export const environment = (name: string): Resource<EnvVar[]> =>
  resource(`/projects/${name}/env`, async () => {
    return (await call(client.GET('/projects/{name}/env', { params: { path: { name } } }))).env;
  });

export const shares = (): Resource<Share[]> =>
  resource('/shares', async () => (await call(client.GET('/shares'))).shares);

export const audit = (name: string): Resource<AuditEntry[]> =>
  resource(`/projects/${name}/audit`, async () => {
    return (await call(client.GET('/projects/{name}/audit', { params: { path: { name } } }))).entries;
  });
