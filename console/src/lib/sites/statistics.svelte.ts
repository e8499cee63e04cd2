// What is told about a site's visits, for some hours or days.

import { call, client } from '#lib/api/client.ts';
import type { AudienceStats, BotsStats, ErrorsStats, LiveStats, StatsHistory } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';
import { search, type Dates, type Filters } from './period.ts';

type Days = { days: number } | Dates;

export const live = (name: string, query: { hours: number } | Dates): Resource<LiveStats> =>
  resource(`/projects/${name}/stats?${search(query)}`, () =>
    call(client.GET('/projects/{name}/stats', { params: { path: { name }, query } })),
  );

export const history = (name: string, query: Days): Resource<StatsHistory> =>
  resource(`/projects/${name}/stats/history?${search(query)}`, () =>
    call(client.GET('/projects/{name}/stats/history', { params: { path: { name }, query } })),
  );

export const audience = (name: string, query: Days & Filters): Resource<AudienceStats> =>
  resource(`/projects/${name}/stats/audience?${search(query)}`, () =>
    call(client.GET('/projects/{name}/stats/audience', { params: { path: { name }, query } })),
  );

export const bots = (name: string, query: Days): Resource<BotsStats> =>
  resource(`/projects/${name}/stats/bots?${search(query)}`, () =>
    call(client.GET('/projects/{name}/stats/bots', { params: { path: { name }, query } })),
  );

export const errors = (name: string, query: Days): Resource<ErrorsStats> =>
  resource(`/projects/${name}/stats/errors?${search(query)}`, () =>
    call(client.GET('/projects/{name}/stats/errors', { params: { path: { name }, query } })),
  );

/**
 * What a site's page shows while something else of the same site is on its way: what it showed before, so that nothing moves, and the row
 * that was pressed keeps the focus.
 */
export function steady<T>(): (site: string, wanted: Resource<T>) => Resource<T> {
  let last: { site: string; shown: Resource<T> } | undefined;
  return (site, wanted) => {
    const isHere = wanted.data !== undefined || wanted.problem !== undefined;
    if (isHere || last?.site !== site) last = { site, shown: wanted };
    return last.shown;
  };
}
