// The AI gateway: what was used this month.

import { call, client } from '#lib/api/client.ts';
import type { AiUsage } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

export const usage = (): Resource<AiUsage> => resource('/usage/ai', () => call(client.GET('/usage/ai')));
