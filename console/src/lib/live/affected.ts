// What an event makes old: the keys of the store, which are the API's paths. A key that ends with `/*` means all below it, too.

/** An event of the stream. */
export interface Change {
  /** An action of the audit log, or `receipt`, `domain.state`, `push`, `billing`. */
  type: string;
  /** The login or the organization that it belongs to. */
  account: string;
  project: string | null;
  /** The id or host that it is about. */
  subject: string | null;
  /** The login of who did it. */
  by: string | null;
  at: string;
  detail: Record<string, unknown>;
}

type Keys = (site: string, org: string) => string[];

const SITES: Keys = (site) => ['/projects', site];
const SITE: Keys = (site) => [site];
const DEPLOYMENTS: Keys = (site) => [site, `${site}/deployments/*`, `${site}/stats`];
const INVITES: Keys = (_, org) => [`${org}/invites`];
const MEMBERS: Keys = (_, org) => [org, '/orgs', '/projects'];
const TOKENS: Keys = (_, org) => ['/tokens', `${org}/tokens`];
const INSTALLATIONS: Keys = (_, org) => ['/vcs', `${org}/installations`];
const BILLING: Keys = (_, org) => ['/billing', `${org}/billing`];

const AFFECTED: Record<string, Keys> = {
  'project.create': SITES,
  'project.delete': (site) => ['/projects', `${site}/*`, '/suspensions'],
  'project.restore': (site) => ['/projects', `${site}/*`],
  'project.transfer_in': (site, org) => ['/projects', site, org],
  'project.transfer_out': (site, org) => ['/projects', site, org],
  'project.access': SITE,
  'project.password_set': SITE,
  'project.password_remove': SITE,
  'project.suspend': (site) => [site, '/suspensions'],
  'project.resume': (site) => [site, '/suspensions'],
  'account.suspend': () => ['/projects', '/suspensions'],
  'account.resume': () => ['/projects', '/suspensions'],
  'deployment.upload': (site) => ['/projects', ...DEPLOYMENTS(site, '')],
  'deployment.activate': (site) => ['/projects', ...DEPLOYMENTS(site, '')],
  'deployment.delete': DEPLOYMENTS,
  'deployment.expire': DEPLOYMENTS,
  push: DEPLOYMENTS,
  'env.set': (site) => [`${site}/env`],
  'env.remove': (site) => [`${site}/env`],
  'repo.link': SITE,
  'repo.unlink': SITE,
  'domain.attach': SITE,
  'domain.detach': SITE,
  'domain.claim': SITE,
  'domain.lose': SITE,
  'domain.state': SITE,
  'stats.publish': (site) => [`${site}/stats/public`],
  'stats.unpublish': (site) => [`${site}/stats/public`],
  'share.create': () => ['/shares'],
  'share.delete': () => ['/shares'],
  'org.create': () => ['/orgs'],
  'org.update': (_, org) => ['/orgs', org],
  'org.take_over': BILLING,
  'org.delete': (_, org) => ['/orgs', `${org}/*`],
  'icon.set': (_, org) => ['/orgs', org],
  'icon.remove': (_, org) => ['/orgs', org],
  'invite.create': INVITES,
  'invite.revoke': INVITES,
  'invite.accept': (site, org) => [...INVITES(site, org), ...MEMBERS(site, org)],
  'member.role': MEMBERS,
  'member.remove': MEMBERS,
  'member.leave': MEMBERS,
  'token.create': TOKENS,
  'token.revoke': TOKENS,
  'token.limit': TOKENS,
  'letters.change': () => ['/notifications'],
  'session.create': () => ['/sessions'],
  'session.end': () => ['/sessions'],
  'usage.limit': (_, org) => [`${org}/usage/*`],
  'gateway.aliases': (_, org) => [`${org}/ai/*`],
  'installation.share': INSTALLATIONS,
  'installation.unshare': (site, org) => [...INSTALLATIONS(site, org), '/projects'],
  'billing.profile': BILLING,
  'billing.vat_status': BILLING,
  'billing.plan': BILLING,
  'billing.renewal': BILLING,
  billing: BILLING,
  // It says how far a change has come, and changes nothing.
  receipt: () => [],
};

/** The keys that `change` makes old. One of a kind that is not known makes everything of its site or account old. */
export function affected(change: Change): string[] {
  const org = `/orgs/${change.account}`;
  const site = change.project === null ? undefined : `/projects/${change.project}`;
  const keys = AFFECTED[change.type];
  if (!keys)
    return site ? ['/projects', `${site}/*`] : [`${org}/*`, '/orgs', '/billing', '/tokens', '/shares'];
  if (change.type === 'receipt') return [];
  // A site's own changes are in its log, in its organization's, and in the activity of who made them.
  const logs = ['/activity', `${org}/audit`, ...(site ? [`${site}/audit`] : [])];
  return [...new Set([...keys(site ?? '/projects/*', org), ...logs])];
}

export const KNOWN = Object.keys(AFFECTED);
