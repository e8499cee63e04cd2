// What one does with a site. Each act shows its outcome first and takes it back when the API refuses.

import { call, client, propagation } from '#lib/api/client.ts';
import type { Deployment, ProjectDetail } from '#lib/api/schema.d.ts';
import { invalidate } from '#lib/store.svelte.ts';
import { toasts } from '#lib/ui/toasts.svelte.ts';
import { site } from './sites.svelte.ts';

/** Points the site at a deployment. It can be pointed back, so nobody is asked. */
export async function activate(name: string, deployment: Deployment): Promise<void> {
  const mark = (detail: ProjectDetail): ProjectDetail => ({
    ...detail,
    active_deployment_id: deployment.id,
    deployments: detail.deployments.map((other) => ({
      ...other,
      active: other.id === deployment.id,
      status: other.id === deployment.id ? 'live' : other.status === 'live' ? 'superseded' : other.status,
    })),
  });
  try {
    const path = { name, id: deployment.id };
    const receipt = await site(name).change(mark, async () => {
      const answer = await client.POST('/projects/{name}/deployments/{id}/activate', { params: { path } });
      await call(Promise.resolve(answer));
      return propagation(answer.response);
    });
    toasts.say(`${short(deployment.id)} is served${receipt ? `: ${receipt}` : ''}.`);
  } catch (thrown) {
    toasts.fail('The site stays as it was', thrown);
  } finally {
    invalidate('/projects', `/projects/${name}/deployments/*`);
  }
}

/** The part of an id by which people tell deployments apart. */
export function short(id: string): string {
  return id.replace(/^[a-z]+_/, '').slice(-8);
}
