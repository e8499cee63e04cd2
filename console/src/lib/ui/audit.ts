// Entries of the audit log as sentences, which name what was changed.

import type { AuditEntry } from '#lib/api/schema.d.ts';
import { euros } from '#lib/format.ts';

/** The part of an id by which people tell deployments apart. */
const short = (id: string) => id.replace(/^[a-z]+_/, '').slice(-8);

type Say = (of: (key: string) => string) => string;

/** What was done, with its object. Of an action that has none here, the code and its details are shown. */
const SENTENCES: Record<string, Say> = {
  'project.create': () => 'created the site',
  'project.delete': () => 'deleted the site',
  'project.restore': () => 'restored the site',
  'project.rename': (of) => `renamed the site from ${of('former_name')}`,
  'project.transfer_out': (of) => `moved the site to ${of('to') || 'themselves'}`,
  'project.transfer_in': (of) => `took the site over from ${of('from') || 'a person'}`,
  'project.access': (of) =>
    `opened the site to ${{ public: 'everybody', password: 'holders of its password', org: 'members' }[of('mode')] ?? of('mode')}`,
  'project.password_set': () => 'set the password of the site',
  'project.password_remove': () => 'removed the password of the site',
  'project.suspend': (of) => `took the site down (${of('reason')})`,
  'project.resume': () => 'put the site back up',
  'account.suspend': (of) => `took all sites of the account down (${of('reason')})`,
  'account.resume': () => 'put the sites of the account back up',
  'deployment.upload': (of) => `deployed ${short(of('deployment'))}`,
  'deployment.activate': (of) => `made ${short(of('deployment'))} live`,
  'deployment.delete': (of) => `deleted the deployment ${short(of('deployment'))}`,
  'deployment.expire': (of) =>
    `removed old deployments (${of('deployments').split(', ').map(short).join(', ')})`,
  'env.set': (of) => `set the variable ${of('key')}`,
  'env.remove': (of) => `removed the variable ${of('key')}`,
  'repo.link': (of) => `linked the repository ${of('repo')}`,
  'repo.unlink': () => 'unlinked the repository',
  'domain.attach': (of) => `attached ${of('domain')}`,
  'domain.detach': (of) => `detached ${of('domain')}`,
  'domain.claim': (of) => `took ${of('domain')} over`,
  'domain.lose': (of) => `lost ${of('domain')} to another site`,
  'stats.publish': () => 'made the statistics public',
  'stats.unpublish': () => 'made the statistics private',
  'share.create': () => 'shared something',
  'share.delete': () => 'ended a share',
  'org.create': () => 'created the organization',
  'org.update': (of) => `named the organization ${of('display_name')}`,
  'org.take_over': (of) => `had the organization count against the plan of ${of('login')}`,
  'org.delete': () => 'deleted the organization',
  'icon.set': () => 'changed the icon',
  'icon.remove': () => 'removed the icon',
  'invite.create': (of) => `invited ${of('email')} as ${of('role')}`,
  'invite.revoke': (of) => `revoked the invitation of ${of('email') || of('invite')}`,
  'invite.accept': (of) => `joined as ${of('role')}`,
  'member.role': (of) => `made ${of('login')} ${of('to')} (was ${of('from')})`,
  'member.remove': (of) => `removed ${of('login')}`,
  'member.leave': () => 'left',
  'token.create': (of) => `created the token ${of('label') ? `“${of('label')}”` : of('token')}`,
  'token.revoke': (of) => `revoked the token ${of('token')}`,
  'token.limit': (of) => `changed the limit of the token ${of('token')}`,
  'letters.change': (of) =>
    `turned letters ${of('enabled') === 'true' ? 'on' : 'off'}: ${of('kind').replaceAll('_', ' ')}`,
  'session.create': (of) => `signed in with ${of('browser')}`,
  'session.end': (of) => (of('browser') ? `signed out of ${of('browser')}` : 'signed out everywhere'),
  'usage.limit': (of) =>
    of('monthly_limit_cents')
      ? `limited AI to ${euros(Number(of('monthly_limit_cents')))} a month`
      : 'took the AI limit away',
  'gateway.aliases': (of) =>
    of('names') ? `named models ${of('names').split(' ').join(', ')}` : 'took the names of models away',
  'installation.share': (of) => `shared the installation of ${of('account') || of('installation')}`,
  'installation.unshare': (of) => `stopped sharing the installation ${of('installation')}`,
  'billing.profile': () => 'changed the details on invoices',
  'billing.vat_status': (of) => `had the VAT number ${of('vat_number')} checked`,
  'billing.plan': (of) => `chose the plan ${of('plan')} (${of('what')})`,
  'billing.renewal': (of) => `${of('what')} the plan ${of('plan')}`,
};

const text = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(text).join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
};

/** What an entry tells, as the rest of a sentence that begins with who did it. */
export function told({ action, detail }: AuditEntry): string {
  const of = (key: string) => text(detail[key]);
  const say = SENTENCES[action];
  if (say) return say(of);
  const details = Object.entries(detail).map(([key, value]) => `${key} ${text(value)}`);
  return [action, ...details].join(', ');
}

export const KNOWN = Object.keys(SENTENCES);
