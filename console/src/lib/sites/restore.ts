// Brings deleted sites back. By itself: the first page loads it.

import { call, client } from '#lib/api/client.ts';
import { invalidate } from '#lib/store.svelte.ts';
import { toasts } from '#lib/ui/toasts.svelte.ts';

/** Restores a site as it was. */
export async function restore({ id, name }: { id: string; name: string }): Promise<void> {
  try {
    const path = { id };
    const restored = await call(
      client.POST('/deleted-projects/{id}/restore', { params: { path }, body: {} }),
    );
    toasts.say(`${restored.name} is back.`);
    invalidate('/projects', `/projects/${restored.name}/*`, '/deleted-projects');
  } catch (thrown) {
    toasts.fail(`${name} stays deleted`, thrown);
  }
}
