// What can be gone to and done by name, and which of it answers to what was typed.

import type { Org, Project } from '#lib/api/schema.d.ts';

/** Entries that are shown at most. */
const SHOWN = 50;

export interface Entry {
  /** Unique among the entries. */
  id: string;
  label: string;
  /** The kind of thing, shown behind the label. */
  kind: 'Page' | 'Site' | 'Organization' | 'Action';
  /** The address that it leads to; one of another host is opened in a tab of its own. */
  href: string;
  /** Whether it is a page below a site's or an organization's own. */
  isBelow: boolean;
}

const PAGES: [label: string, href: string][] = [
  ['Sites', '/'],
  ['Shares', '/shares'],
  ['AI gateway: models, keys, usage', '/ai'],
  ['Billing: plan, invoices', '/billing'],
  ['Account: tokens, sessions, installations', '/account'],
  ['API reference', '/docs'],
];

const ACTIONS: [label: string, href: string][] = [
  ['New site', '/new'],
  ['New share', '/new?share'],
  ['New organization', '/account#new-organization'],
  ['New AI key', '/ai#keys'],
];

const SITE_PAGES = ['deployments', 'statistics', 'domains', 'access', 'environment', 'settings'];
const ORG_PAGES = ['members', 'invites', 'tokens', 'installations', 'usage', 'billing', 'audit', 'settings'];
/** The pages of an organization that only its managers see. */
const MANAGED = new Set(['invites', 'tokens', 'billing', 'audit']);

/** Everything there is. */
export function entries(sites: Project[], orgs: Org[]): Entry[] {
  const found: Entry[] = [];
  const add = (kind: Entry['kind'], label: string, href: string, isBelow = false) =>
    found.push({ id: `${kind} ${href}`, label, kind, href, isBelow });
  for (const [label, href] of PAGES) add('Page', label, href);
  for (const [label, href] of ACTIONS) add('Action', label, href);
  for (const site of sites) {
    add('Site', site.name, `/sites/${site.name}`);
    for (const page of SITE_PAGES) add('Site', `${site.name} ${page}`, `/sites/${site.name}/${page}`, true);
    add('Action', `Deploy ${site.name}`, `/new?site=${site.name}`);
    add('Action', `Open ${site.name}`, site.url);
  }
  for (const org of orgs) {
    const name = org.display_name ?? org.name;
    add('Organization', name === org.name ? name : `${name} (${org.name})`, `/orgs/${org.name}`);
    for (const page of ORG_PAGES) {
      if (org.role === 'member' && MANAGED.has(page)) continue;
      add('Organization', `${name} ${page}`, `/orgs/${org.name}/${page}`, true);
    }
  }
  return found;
}

/** The entries that have every word, those first that begin with them; without a word, pages, actions and what is short. */
export function matching(all: Entry[], typed: string): Entry[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return all.filter(({ isBelow }) => !isBelow).slice(0, SHOWN);
  const ranked: { entry: Entry; rank: number }[] = [];
  for (const entry of all) {
    const rank = rankOf(entry.label.toLowerCase(), words);
    if (rank !== undefined) ranked.push({ entry, rank });
  }
  ranked.sort((a, b) => a.rank - b.rank || a.entry.label.length - b.entry.label.length);
  return ranked.slice(0, SHOWN).map(({ entry }) => entry);
}

/** Lower is better: 0 for each word that begins the label, 1 that begins a word of it, 2 that stands within one. */
function rankOf(label: string, words: string[]): number | undefined {
  let rank = 0;
  for (const word of words) {
    const at = label.indexOf(word);
    if (at < 0) return undefined;
    rank += at === 0 ? 0 : / [^ ]*$/.test(label.slice(0, at)) && !label.includes(` ${word}`) ? 2 : 1;
  }
  return rank;
}
