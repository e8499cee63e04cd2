// What is told about a site's visits, for a range of hours or days.

import { call, client } from '#lib/api/client.ts';
import type { AudienceStats, BotsStats, ErrorsStats, LiveStats } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

/** The ranges that people choose from. Hours are told by the hour, days by the day. */
export const RANGES = [
  { key: '24h', label: '24 h', hours: 24 },
  { key: '72h', label: '72 h', hours: 72 },
  { key: '30d', label: '30 d', days: 30 },
  { key: '90d', label: '90 d', days: 90 },
  { key: '1y', label: '1 y', days: 365 },
] as const;

export type Range = (typeof RANGES)[number];

/** Days that cover a range: audience, bots and errors are told by the day only. */
export const daysOf = (range: Range): number => ('days' in range ? range.days : Math.ceil(range.hours / 24));

export const live = (name: string, hours: number): Resource<LiveStats> =>
  resource(`/projects/${name}/stats?hours=${hours}`, () =>
    call(client.GET('/projects/{name}/stats', { params: { path: { name }, query: { hours } } })),
  );

export const history = (name: string, days: number) =>
  resource(`/projects/${name}/stats/history?days=${days}`, () =>
    call(client.GET('/projects/{name}/stats/history', { params: { path: { name }, query: { days } } })),
  );

export const audience = (name: string, days: number): Resource<AudienceStats> =>
  resource(`/projects/${name}/stats/audience?days=${days}`, () =>
    call(client.GET('/projects/{name}/stats/audience', { params: { path: { name }, query: { days } } })),
  );

export const bots = (name: string, days: number): Resource<BotsStats> =>
  resource(`/projects/${name}/stats/bots?days=${days}`, () =>
    call(client.GET('/projects/{name}/stats/bots', { params: { path: { name }, query: { days } } })),
  );

export const errors = (name: string, days: number): Resource<ErrorsStats> =>
  resource(`/projects/${name}/stats/errors?days=${days}`, () =>
    call(client.GET('/projects/{name}/stats/errors', { params: { path: { name }, query: { days } } })),
  );
