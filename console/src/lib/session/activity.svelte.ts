// What the person did, and what was done to what is theirs.

import { call, client } from '#lib/api/client.ts';
import type { AuditLog } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

/** A page of it: the newest one, or the one that a cursor names. */
export const activityPage = (query: { cursor?: string } = {}): Promise<AuditLog> =>
  call(client.GET('/activity', { params: { query } }));

export const activity = (): Resource<AuditLog> => resource('/activity', () => activityPage());
