// Sites: projects as people think of them.

import { call, client } from '#lib/api/client.ts';
import type {
  AuditEntry,
  CertificateStatus,
  DeletedProject,
  DeployedFile,
  Deployment,
  DeploymentChanges,
  DeploymentList,
  EnvVar,
  LiveStats,
  Project,
  ProjectDetail,
  Share,
  SuspendedSite,
} from '#lib/api/schema.d.ts';
import { orgs } from '#lib/session/session.svelte.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

/** Events say when a list has changed: between them it is asked for again this often. */
const LIST_FRESH_MS = 10_000;
/** What a row shows of its site may be this old. */
const ROW_FRESH_MS = 60_000;

/**
 * What a row shows of its site. Servers that send it with the list spare the page two questions for each row; every field may be
 * missing.
 */
export interface Summary {
  /** Requests of the last 24 hours, by the hour. */
  hours?: { hour: string; requests: number }[] | null;
  /** The time of the deployment that is live. */
  deployed_at?: string | null;
  /** Whether the newest deployment failed. */
  last_failed?: boolean | null;
  /** Domains that wait for somebody, and those on their way by themselves. */
  domains_blocked?: number | null;
  domains_coming?: number | null;
}

export type ListedSite = Project & { summary?: Summary | null };

/** All sites that one sees, one's own and those of one's organizations, newest first. Long lists are shown as far as they are here. */
export const sites = (): Resource<ListedSite[]> =>
  resource<ListedSite[]>(
    '/projects',
    async (partial) => {
      const all: ListedSite[] = [];
      let cursor: string | undefined;
      do {
        // The first call is under way before this is here (build/finish.ts).
        const query = { all: true, ...(cursor ? { cursor } : {}) };
        const part = await call(client.GET('/projects', { params: { query } }));
        all.push(...part.projects);
        cursor = part.next_cursor ?? undefined;
        if (cursor) partial([...all]);
      } while (cursor);
      return all;
    },
    undefined,
    LIST_FRESH_MS,
  );

/** One's own sites, and those of each of one's organizations. */
async function ofEveryOwner<T>(ask: (org: string | undefined) => Promise<T[]>): Promise<T[]> {
  const mine = orgs();
  const ofOrgs = mine.refresh().then(() => {
    if (mine.data === undefined) throw mine.problem;
    return Promise.all(mine.data.map(({ name }) => ask(name)));
  });
  const [own, theirs] = await Promise.all([ask(undefined), ofOrgs]);
  return [...own, ...theirs.flat()];
}

export const site = (name: string, freshMs = 0): Resource<ProjectDetail> =>
  resource(
    `/projects/${name}`,
    () => call(client.GET('/projects/{name}', { params: { path: { name } } })),
    undefined,
    freshMs,
  );

export const today = (name: string, freshMs = 0): Resource<LiveStats> =>
  resource(
    `/projects/${name}/stats?hours=24`,
    () => call(client.GET('/projects/{name}/stats', { params: { path: { name }, query: { hours: 24 } } })),
    undefined,
    freshMs,
  );

/** What a row asks for when its list has not said it. */
export const ofRow = (name: string, isLive: boolean) => ({
  detail: site(name, ROW_FRESH_MS),
  day: isLive ? today(name, ROW_FRESH_MS) : undefined,
});

export const deployments = (name: string): Resource<DeploymentList> =>
  resource(`/projects/${name}/deployments`, () =>
    call(client.GET('/projects/{name}/deployments', { params: { path: { name } } })),
  );

export const environment = (name: string): Resource<EnvVar[]> =>
  resource(`/projects/${name}/env`, async () => {
    return (await call(client.GET('/projects/{name}/env', { params: { path: { name } } }))).env;
  });

export const deployment = (name: string, id: string): Resource<Deployment> =>
  resource(`/projects/${name}/deployments/${id}`, () =>
    call(client.GET('/projects/{name}/deployments/{id}', { params: { path: { name, id } } })),
  );

/** All files of a deployment; they never change. */
export const files = (name: string, id: string): Resource<DeployedFile[]> =>
  resource(
    `/projects/${name}/deployments/${id}/files`,
    async () => {
      const all: DeployedFile[] = [];
      let cursor: string | undefined;
      do {
        const params = { path: { name, id }, query: cursor ? { cursor } : {} };
        const part = await call(client.GET('/projects/{name}/deployments/{id}/files', { params }));
        all.push(...part.files);
        cursor = part.next_cursor ?? undefined;
      } while (cursor);
      return all;
    },
    () => true,
  );

export const changes = (name: string, id: string): Resource<DeploymentChanges> =>
  resource(`/projects/${name}/deployments/${id}/changes`, () =>
    call(client.GET('/projects/{name}/deployments/{id}/changes', { params: { path: { name, id } } })),
  );

/** The sites that the operator has taken down, one's own and those of one's organizations. */
export const suspensions = (): Resource<SuspendedSite[]> =>
  resource(
    '/suspensions',
    () =>
      ofEveryOwner(async (org) => {
        const query = org ? { org } : {};
        return (await call(client.GET('/suspensions', { params: { query } }))).suspensions;
      }),
    undefined,
    // A question for each organization: an event tells of what changes.
    ROW_FRESH_MS,
  );

/** The state in which visitors find a domain; a handshake is made for it, so a good one is looked at once. */
export const certificate = (name: string, domain: string): Resource<CertificateStatus> =>
  resource(
    `/projects/${name}/domains/${domain}/certificate`,
    () =>
      call(
        client.GET('/projects/{name}/domains/{domain}/certificate', { params: { path: { name, domain } } }),
      ),
    (seen) => seen.valid,
  );

export const shares = (): Resource<Share[]> =>
  resource('/shares', async () => (await call(client.GET('/shares'))).shares);

export const audit = (name: string): Resource<AuditEntry[]> =>
  resource(`/projects/${name}/audit`, async () => {
    return (await call(client.GET('/projects/{name}/audit', { params: { path: { name } } }))).entries;
  });

/** One's own sites that were deleted and can be restored, or an organization's. */
export const deleted = (org: string | undefined): Resource<DeletedProject[]> =>
  resource(`/deleted-projects?org=${org ?? ''}`, async () => {
    const query = org ? { org } : {};
    return (await call(client.GET('/deleted-projects', { params: { query } }))).projects;
  });
