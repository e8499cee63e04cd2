// What is in the way of a site's visitors.

import type { Domain, Suspension } from '#lib/api/schema.d.ts';

/** Domains that wait for somebody to do something. */
export const blocked = (domains: Domain[]): Domain[] =>
  domains.filter(({ status }) => status.has_obstacle || status.state === 'blocked');

/** Domains that are not served yet, and on their way by themselves. */
export const underWay = (domains: Domain[]): Domain[] =>
  domains.filter(({ status, tls_ready }) => !tls_ready && !status.has_obstacle && status.state !== 'blocked');

export const suspendedFor: Record<Suspension, string> = {
  abuse: 'it was reported for abuse',
  legal: 'a law or a court demands it',
  payment: 'a bill is not paid',
};
