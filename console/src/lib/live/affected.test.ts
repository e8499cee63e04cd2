import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { affected, KNOWN, type Change } from './affected.ts';

const change = (type: string, project: string | null = 'engine'): Change => ({
  type,
  account: 'acme',
  project,
  subject: null,
  by: 'ada',
  at: '2026-11-23T12:00:00Z',
  detail: {},
});

test('every action of the audit log is known', () => {
  const source = join(import.meta.dirname, '../../../../common/domain/src/audit.rs');
  const actions = [...readFileSync(source, 'utf8').matchAll(/^ {4}\w+ = "([a-z_.]+)",$/gm)].map(
    ([, word]) => word,
  );
  expect(actions.length).toBeGreaterThan(40);
  expect(actions.filter((action) => !KNOWN.includes(action ?? ''))).toEqual([]);
});

test('a change makes what shows it old, and the logs', () => {
  expect(affected(change('env.set'))).toEqual([
    '/projects/engine/env',
    '/activity',
    '/orgs/acme/audit',
    '/projects/engine/audit',
  ]);
  expect(affected(change('invite.create', null))).toEqual([
    '/orgs/acme/invites',
    '/activity',
    '/orgs/acme/audit',
  ]);
  expect(affected(change('receipt'))).toEqual([]);
});

test('a kind that is not known makes everything of its site old', () => {
  expect(affected(change('site.paint'))).toEqual(['/projects', '/projects/engine/*']);
});
