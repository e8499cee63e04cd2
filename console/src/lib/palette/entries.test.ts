import { expect, test } from 'vitest';
import type { Org, Project } from '#lib/api/schema.d.ts';
import { entries, matching } from './entries.ts';

const site = (name: string) => ({ name, url: `https://${name}.svc.localhost` }) as Project;
const org = (name: string, role: Org['role']) => ({ name, role, display_name: 'Acme Works' }) as Org;
const all = entries([site('engine'), site('my-engine'), site('shop')], [org('acme', 'member')]);
const labels = (typed: string) => matching(all, typed).map(({ label }) => label);

test('what begins with the word comes first, then what has it', () => {
  expect(labels('engine').slice(0, 2)).toEqual(['engine', 'engine access']);
  expect(labels('engine')).toContain('my-engine');
  expect(labels('engine')).not.toContain('shop');
});

test('a typing mistake is forgiven, when nothing is called like that', () => {
  expect(labels('shop deploments')).toEqual(['shop deployments']);
  expect(labels('stateinsg')).toEqual([]);
});

test('people find things by the words that they know', () => {
  expect(labels('logout')).toEqual(['Sign out']);
  expect(labels('shop rollback')).toEqual(['shop deployments']);
  expect(labels('shop password')).toEqual(['shop access']);
  expect(labels('invite')).not.toContain('Acme Works invites');
});

test('a theme is chosen by name', () => {
  expect(labels('theme').sort()).toEqual(['Theme: dark', 'Theme: light', 'Theme: system']);
  expect(labels('dark mode')).toEqual(['Theme: dark']);
  expect(labels('')).not.toContain('Theme: dark');
});

test('what was gone to lately comes first', () => {
  const [shop] = matching(all, 'shop access');
  expect(
    matching(all, '', [shop?.id ?? '', 'gone'])
      .slice(0, 2)
      .map(({ label }) => label),
  ).toEqual(['shop access', 'Sites']);
});

test('words are found in any order', () => {
  expect(labels('domains shop')[0]).toBe('shop domains');
  expect(labels('nothing like it')).toEqual([]);
});

test('a member is not led to pages of managers', () => {
  expect(labels('acme')).toContain('Acme Works members');
  expect(labels('acme')).not.toContain('Acme Works invites');
});

test('without a word there are pages, actions and the things themselves', () => {
  expect(labels('')).toContain('New site');
  expect(labels('')).toContain('shop');
  expect(labels('')).toContain('Account: tokens, sessions, installations');
  expect(labels('')).not.toContain('shop domains');
});
