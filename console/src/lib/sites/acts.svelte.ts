// What one does with a site. Each act shows its outcome first and takes it back when the API refuses.

import { call, client, propagation } from '#lib/api/client.ts';
import type { Deployment, ProjectDetail } from '#lib/api/schema.d.ts';
import { invalidate } from '#lib/store.svelte.ts';
import { toasts } from '#lib/ui/toasts.svelte.ts';
import { ask } from '#lib/ui/ask.svelte.ts';
import { counted } from '#lib/format.ts';
import { site } from './sites.svelte.ts';

/** Points the site at a deployment. It can be pointed back, so nobody is asked, and visitors do not wait for the time to do so. */
export async function activate(
  name: string,
  deployment: Pick<Deployment, 'id'>,
  isTurningBack = false,
): Promise<void> {
  const before = site(name).data?.active_deployment_id;
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
    const undo = () => before && void activate(name, { id: before }, true);
    const said = `${short(deployment.id)} is live${receipt ? `: ${receipt.replace(/^live /, '')}` : ''}.`;
    toasts.say(said, before && before !== deployment.id && !isTurningBack ? { undo } : {});
  } catch (thrown) {
    toasts.fail('The site stays as it was', thrown);
  } finally {
    invalidate('/projects', `/projects/${name}/deployments/*`);
  }
}

/** Asks before a deployment that nobody sees is deleted. */
export function askToDelete(deployment: Deployment, run: () => Promise<void>): void {
  const id = short(deployment.id);
  ask({
    title: `Delete the deployment ${id}?`,
    lost: [`Its ${counted(deployment.files, 'file')} will be gone; the site can no longer go back to them.`],
    action: 'Delete',
    run: async () => {
      await run();
      toasts.say(`${id} is deleted.`);
    },
  });
}

/** The part of an id by which people tell deployments apart. */
export function short(id: string): string {
  return id.replace(/^[a-z]+_/, '').slice(-8);
}
