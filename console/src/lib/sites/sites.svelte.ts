// Sites: projects as people think of them.

import { call, client } from '#lib/api/client.ts';
import type {
  AuditLog,
  CertificateStatus,
  DeletedProject,
  DeployedFile,
  Deployment,
  DeploymentChanges,
  DeploymentList,
  EnvVar,
  ListedProject,
  LiveStats,
  Project,
  ProjectDetail,
  Share,
  SuspendedSite,
} from '#lib/api/schema.d.ts';
import { whole } from '#lib/api/whole.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

/** Events say when a list has changed: between them it is asked for again this often. */
const LIST_FRESH_MS = 10_000;
/** What only an event changes may be this old. */
const KEPT_FRESH_MS = 60_000;
/** Sites of a page of the API's lists. */
const PAGE = 100;

/** A list of sites from its beginning, as far as one has come. */
export interface SiteList {
  sites: ListedProject[];
  /** Whether there are more. */
  isCut: boolean;
}

/** Which sites a list has: those of one organization, or all that one sees; those with `search` in their names. */
export interface Listing {
  org?: string | undefined;
  search?: string | undefined;
}

/** Pages that were asked for, by the list's key: as many are asked for when it is refreshed. */
const reached = new Map<string, number>();

/** The exact address of the first call of the home page is in build/finish.ts, too. */
const keyOf = ({ org, search }: Listing) => {
  const query = new URLSearchParams(org ? { org } : { all: 'true' });
  query.set('summary', 'true');
  if (search) query.set('search', search);
  return `/projects?${query}`;
};

async function pages(
  { org, search }: Listing,
  wanted: number,
  partial: (list: SiteList) => void,
): Promise<SiteList> {
  const sites: ListedProject[] = [];
  for (let cursor: string | undefined, page = 0; ;) {
    const whose = org ? { org } : { all: true };
    const query = { ...whose, summary: true, ...(search ? { search } : {}), ...(cursor ? { cursor } : {}) };
    const part = await call(client.GET('/projects', { params: { query } }));
    sites.push(...part.projects);
    cursor = part.next_cursor ?? undefined;
    page += 1;
    const list = { sites: [...sites], isCut: cursor !== undefined };
    if (!cursor || page >= wanted) return list;
    partial(list);
  }
}

/** Sites as a list shows them, newest first, with what each row says: one request for a hundred. */
export const siteList = (of: Listing): Resource<SiteList> => {
  const key = keyOf(of);
  const ask = (partial: (list: SiteList) => void) => pages(of, reached.get(key) ?? 1, partial);
  return resource<SiteList>(key, ask, undefined, LIST_FRESH_MS);
};

/** Asks for the next page of a list. */
export async function moreSites(of: Listing): Promise<void> {
  const key = keyOf(of);
  const list = siteList(of);
  if (list.isLoading || !list.data?.isCut) return;
  reached.set(key, Math.ceil(list.data.sites.length / PAGE) + 1);
  await list.refresh();
}

/** The names and addresses of all sites that one sees, to choose from. Long lists are shown as far as they are here. */
export const sites = (): Resource<Project[]> =>
  resource<Project[]>(
    '/projects',
    async (partial) => {
      const all: Project[] = [];
      let cursor: string | undefined;
      do {
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
      const path = { name, id };
      const pages = await whole((query) =>
        call(client.GET('/projects/{name}/deployments/{id}/files', { params: { path, query } })),
      );
      return pages.flatMap(({ files }) => files);
    },
    () => true,
  );

export const changes = (name: string, id: string): Resource<DeploymentChanges> =>
  resource(`/projects/${name}/deployments/${id}/changes`, () =>
    call(client.GET('/projects/{name}/deployments/{id}/changes', { params: { path: { name, id } } })),
  );

/** The sites that the operator has taken down, of an organization or one's own. */
export const suspensions = (org: string | undefined): Resource<SuspendedSite[]> => {
  const whose = org ? { org } : {};
  return resource(
    `/suspensions${org ? `?org=${org}` : ''}`,
    async () => {
      const pages = await whole((more) =>
        call(client.GET('/suspensions', { params: { query: { ...whose, ...more } } })),
      );
      return pages.flatMap(({ suspensions }) => suspensions);
    },
    undefined,
    KEPT_FRESH_MS,
  );
};

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
  resource('/shares', async () => {
    const pages = await whole((query) => call(client.GET('/shares', { params: { query } })));
    return pages.flatMap(({ shares }) => shares);
  });

/** A page of the log: the newest one, or the one that a cursor names. */
export const auditPage = (name: string, query: { cursor?: string } = {}): Promise<AuditLog> =>
  call(client.GET('/projects/{name}/audit', { params: { path: { name }, query } }));

export const audit = (name: string): Resource<AuditLog> =>
  resource(`/projects/${name}/audit`, () => auditPage(name));

/** One's own sites that were deleted and can be restored, or an organization's. */
export const deleted = (org: string | undefined): Resource<DeletedProject[]> =>
  resource(`/deleted-projects?org=${org ?? ''}`, async () => {
    const pages = await whole((more) => {
      const query = org ? { org, ...more } : more;
      return call(client.GET('/deleted-projects', { params: { query } }));
    });
    return pages.flatMap(({ projects }) => projects);
  });
