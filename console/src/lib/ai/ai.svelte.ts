// The AI gateway: its models with their prices, and what was used.

import { call, client } from '#lib/api/client.ts';
import type { AiLimit, AiModel, AiUsage, AiUsageDay } from '#lib/api/schema.d.ts';
import { LOCALE } from '#lib/format.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

/** The use of one's own keys, or of an organization's, in a month (`2026-11`). */
export const usage = (org: string | undefined, month: string): Resource<AiUsage> =>
  org
    ? resource(`/orgs/${org}/usage/ai?month=${month}`, () =>
        call(client.GET('/orgs/{name}/usage/ai', { params: { path: { name: org }, query: { month } } })),
      )
    : resource(`/usage/ai?month=${month}`, () =>
        call(client.GET('/usage/ai', { params: { query: { month } } })),
      );

/** The same on each day of the month with a completion. */
export const usageDays = (org: string | undefined, month: string): Resource<AiUsageDay[]> =>
  org
    ? resource(
        `/orgs/${org}/usage/ai/days?month=${month}`,
        async () =>
          (
            await call(
              client.GET('/orgs/{name}/usage/ai/days', { params: { path: { name: org }, query: { month } } }),
            )
          ).days,
      )
    : resource(
        `/usage/ai/days?month=${month}`,
        async () => (await call(client.GET('/usage/ai/days', { params: { query: { month } } }))).days,
      );

export const limit = (org: string): Resource<AiLimit> =>
  resource(`/orgs/${org}/usage/ai/limit`, () =>
    call(client.GET('/orgs/{name}/usage/ai/limit', { params: { path: { name: org } } })),
  );

export const models = (): Resource<AiModel[]> =>
  resource('/ai/models', async () => (await call(client.GET('/ai/models'))).models);

/** The months that can be chosen, the present one first. */
export function months(now: number): string[] {
  const date = new Date(now);
  return Array.from({ length: 12 }, (_, back) =>
    new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - back, 1)).toISOString().slice(0, 7),
  );
}

/** `November 2026`. */
export function monthName(month: string): string {
  return new Date(`${month}-15T00:00:00Z`).toLocaleDateString(LOCALE, { month: 'long', year: 'numeric' });
}
