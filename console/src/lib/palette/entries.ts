// What can be gone to and done by name, and which of it answers to what was typed.

import type { Org, Project } from '#lib/api/schema.d.ts';
import type { Theme } from '#lib/ui/theme.svelte.ts';

/** Entries that are shown at most. */
const SHOWN = 50;
/** Mistakes that are forgiven in a word: none in a short one. */
const FORGIVEN: [letters: number, mistakes: number][] = [
  [8, 2],
  [4, 1],
];

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
  /** Other words by which people look for it. */
  also: string;
  /** A form of the server's, which is sent instead of gone to. */
  isForm?: boolean;
  /** A theme, which is chosen instead of gone to. */
  theme?: Theme;
}

const PAGES: [label: string, href: string, also: string][] = [
  ['Sites', '/', 'home projects'],
  ['Shares', '/shares', ''],
  ['AI gateway: models, keys, usage', '/ai', 'tokens playground llm'],
  ['Billing: plan, invoices', '/billing', 'upgrade downgrade cancel pay credit limits price'],
  ['Account: tokens, sessions, installations', '/account', 'profile email settings github'],
  ['Activity', '/account/activity', 'audit log history sign-ins'],
  ['Letters by mail', '/account#letters', 'notifications email unsubscribe'],
  ['Guide: how to use svc', '/docs/guide/', 'help documentation manual handbook tutorial docs'],
  ['API reference', '/docs', 'help documentation openapi curl'],
];

const ACTIONS: [label: string, href: string, also: string][] = [
  ['New site', '/new', 'create add project deploy upload'],
  ['New share', '/new?share', 'create add'],
  ['New organization', '/account#new-organization', 'create add team'],
  ['New AI key', '/ai#keys', 'create add token'],
  ['New token', '/account', 'create add api key'],
];

const LOOKS: [theme: Theme, also: string][] = [
  ['light', 'bright day mode appearance colours colors'],
  ['dark', 'night mode appearance colours colors'],
  ['system', 'auto automatic mode appearance colours colors'],
];

const SITE_PAGES: [page: string, also: string][] = [
  ['deployments', 'rollback history versions'],
  ['statistics', 'analytics visitors views traffic referrers'],
  ['domains', 'dns certificate tls hostname'],
  ['access', 'password protect private'],
  ['environment', 'variables env secrets'],
  ['settings', 'delete transfer move repository github audit log'],
];
const ORG_PAGES: [page: string, also: string][] = [
  ['members', 'people team roles remove'],
  ['invites', 'invite add people'],
  ['tokens', 'keys'],
  ['installations', 'github repositories'],
  ['usage', 'ai limit'],
  ['billing', 'plan invoices upgrade'],
  ['audit', 'log history'],
  ['settings', 'icon name delete'],
];
/** The pages of an organization that only its managers see. */
const MANAGED = new Set(['invites', 'tokens', 'billing', 'audit']);

/** Everything there is. */
export function entries(sites: Project[], orgs: Org[]): Entry[] {
  const found: Entry[] = [];
  const add = (kind: Entry['kind'], label: string, href: string, also = '', isBelow = false) =>
    found.push({ id: `${kind} ${label} ${href}`, label, kind, href, isBelow, also });
  for (const [label, href, also] of PAGES) add('Page', label, href, also);
  for (const [label, href, also] of ACTIONS) add('Action', label, href, also);
  found.push({
    id: 'sign-out',
    label: 'Sign out',
    kind: 'Action',
    href: '/sign-out',
    isBelow: false,
    also: 'log out logout leave',
    isForm: true,
  });
  for (const [theme, also] of LOOKS) {
    const label = `Theme: ${theme}`;
    found.push({ id: `theme ${theme}`, label, kind: 'Action', href: '', isBelow: true, also, theme });
  }
  for (const site of sites) {
    add('Site', site.name, `/sites/${site.name}`);
    for (const [page, also] of SITE_PAGES)
      add('Site', `${site.name} ${page}`, `/sites/${site.name}/${page}`, also, true);
    add('Action', `Deploy ${site.name}`, `/new?site=${site.name}`, 'upload publish', true);
    add('Action', `Open ${site.name}`, site.url, 'visit', true);
  }
  for (const org of orgs) {
    const name = org.display_name ?? org.name;
    add('Organization', name === org.name ? name : `${name} (${org.name})`, `/orgs/${org.name}`);
    for (const [page, also] of ORG_PAGES) {
      if (org.role === 'member' && MANAGED.has(page)) continue;
      add('Organization', `${name} ${page}`, `/orgs/${org.name}/${page}`, also, true);
    }
  }
  return found;
}

/** The entries that have every word, those first that begin with them; without a word, what was gone to lately, pages and actions. */
export function matching(all: Entry[], typed: string, recent: string[] = []): Entry[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) {
    const lately = recent
      .map((id) => all.find((entry) => entry.id === id))
      .filter((entry) => entry !== undefined);
    return [...lately, ...all.filter((entry) => !entry.isBelow && !lately.includes(entry))].slice(0, SHOWN);
  }
  const exact = ranked(all, words, rankOf);
  // Nothing is called like that: what is nearly called so was meant.
  return exact.length > 0
    ? exact
    : ranked(all, words, (label, also, given) => nearly(`${label} ${also}`, given));
}

function ranked(
  all: Entry[],
  words: string[],
  rank: (label: string, also: string, words: string[]) => number | undefined,
): Entry[] {
  const found: { entry: Entry; rank: number }[] = [];
  for (const entry of all) {
    const place = rank(entry.label.toLowerCase(), entry.also, words);
    if (place !== undefined) found.push({ entry, rank: place });
  }
  found.sort((a, b) => a.rank - b.rank || a.entry.label.length - b.entry.label.length);
  return found.slice(0, SHOWN).map(({ entry }) => entry);
}

/** Lower is better: 0 for each word that begins the label, 1 that begins a word of it, 2 that stands within one, 3 for another word. */
function rankOf(label: string, also: string, words: string[]): number | undefined {
  let rank = 0;
  for (const word of words) {
    const at = label.indexOf(word);
    if (at < 0) {
      if (!` ${also}`.includes(` ${word}`)) return undefined;
      rank += 3;
      continue;
    }
    rank += at === 0 ? 0 : / [^ ]*$/.test(label.slice(0, at)) && !label.includes(` ${word}`) ? 2 : 1;
  }
  return rank;
}

/** The mistakes by which every word is another one of the text; `undefined` when there are too many. */
function nearly(text: string, words: string[]): number | undefined {
  const known = text.split(/[^a-z0-9-]+/).filter(Boolean);
  let mistakes = 0;
  for (const word of words) {
    const most = FORGIVEN.find(([letters]) => word.length >= letters)?.[1] ?? 0;
    const least = Math.min(...known.map((other) => distance(word, other)));
    if (least > most) return undefined;
    mistakes += least;
  }
  return mistakes;
}

/** Letters to add, take away, change, or swap with their neighbour, until the one word is the other. */
function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return Infinity;
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      let least = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (isSame ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] ?? 0) + 1);
      next.push(least);
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}
