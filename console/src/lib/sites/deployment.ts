// What the states of a deployment are called.

import type { Deployment } from '#lib/api/schema.d.ts';

const STATES = {
  live: { tone: 'good', label: 'Live' },
  superseded: { tone: 'off', label: 'Earlier' },
  uploading: { tone: 'busy', label: 'Uploading' },
  failed: { tone: 'bad', label: 'Failed' },
} as const;

export const stateOf = (deployment: Deployment) => STATES[deployment.active ? 'live' : deployment.status];

/** Whether the site can be pointed at it. */
export const canActivate = (deployment: Deployment): boolean =>
  !deployment.active && (deployment.status === 'superseded' || deployment.status === 'live');

export const canDelete = (deployment: Deployment): boolean =>
  !deployment.active && deployment.status !== 'uploading';

/** Whether its files are kept, so that they can be downloaded. */
export const hasFiles = (deployment: Pick<Deployment, 'status'>): boolean =>
  deployment.status === 'live' || deployment.status === 'superseded';

/** The address of all its files, as an archive. */
export const archiveOf = (site: string, deployment: Pick<Deployment, 'id'>): string =>
  `/api/projects/${encodeURIComponent(site)}/deployments/${encodeURIComponent(deployment.id)}/archive`;
