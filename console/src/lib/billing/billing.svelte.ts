// Billing of a person, or of an organization: both have the same calls at their own paths.

import { call, client } from '#lib/api/client.ts';
import type { BillingOverview, SaveBillingProfile } from '#lib/api/schema.d.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

const path = (name: string) => ({ params: { path: { name } } });

export const overview = (org: string | undefined): Resource<BillingOverview> =>
  org
    ? resource(`/orgs/${org}/billing`, () => call(client.GET('/orgs/{name}/billing', path(org))))
    : resource('/billing', () => call(client.GET('/billing')));

/** The page of the payment provider on which the plan is paid for the first time. */
export async function checkout(org: string | undefined, plan: string): Promise<string> {
  const body = { plan };
  const answer = await call(
    org
      ? client.POST('/orgs/{name}/billing/checkout', { ...path(org), body })
      : client.POST('/billing/checkout', { body }),
  );
  return answer.checkout_url;
}

export const changePlan = (org: string | undefined, plan: string) =>
  call(
    org
      ? client.POST('/orgs/{name}/billing/change-plan', { ...path(org), body: { plan } })
      : client.POST('/billing/change-plan', { body: { plan } }),
  );

export const cancel = (org: string | undefined) =>
  call(org ? client.POST('/orgs/{name}/billing/cancel', path(org)) : client.POST('/billing/cancel'));

export const resume = (org: string | undefined) =>
  call(org ? client.POST('/orgs/{name}/billing/resume', path(org)) : client.POST('/billing/resume'));

export const saveProfile = (org: string | undefined, body: SaveBillingProfile) =>
  call(
    org
      ? client.PUT('/orgs/{name}/billing/profile', { ...path(org), body })
      : client.PUT('/billing/profile', { body }),
  );

/** The address of a document of an invoice; it works for some minutes. */
export async function documentUrl(org: string | undefined, id: string, form: 'pdf' | 'xml'): Promise<string> {
  if (form === 'pdf') {
    const link = org
      ? client.GET('/orgs/{name}/billing/invoices/{id}/pdf', { params: { path: { name: org, id } } })
      : client.GET('/billing/invoices/{id}/pdf', { params: { path: { id } } });
    return (await call(link)).url;
  }
  const link = org
    ? client.GET('/orgs/{name}/billing/invoices/{id}/xml', { params: { path: { name: org, id } } })
    : client.GET('/billing/invoices/{id}/xml', { params: { path: { id } } });
  return (await call(link)).url;
}

export const ledgerPath = (org: string | undefined): string =>
  org ? `/api/orgs/${encodeURIComponent(org)}/billing/ledger.csv` : '/api/billing/ledger.csv';
