import { expect, test } from 'vitest';
import type { AuditEntry } from '#lib/api/schema.d.ts';
import { KNOWN as EVENTS } from '#lib/live/affected.ts';
import { KNOWN, told } from './audit.ts';

const entry = (action: string, detail: Record<string, unknown>) => ({ action, detail }) as AuditEntry;

test('an entry names what was changed', () => {
  expect(told(entry('env.set', { key: 'API_URL' }))).toBe('set the variable API_URL');
  expect(told(entry('domain.attach', { domain: 'www.foo.org' }))).toBe('attached www.foo.org');
  expect(told(entry('session.create', { browser: 'Firefox on Linux' }))).toBe(
    'signed in with Firefox on Linux',
  );
  expect(told(entry('session.end', {}))).toBe('signed out everywhere');
  expect(told(entry('deployment.upload', { deployment: 'dep_0mx06u7az15tza90' }))).toBe('deployed z15tza90');
});

test('an action that is not known yet is told as it is', () => {
  expect(told(entry('moon.land', { module: 'Eagle' }))).toBe('moon.land, module Eagle');
});

test('every action of the log has a sentence', () => {
  const events = new Set(['push', 'billing', 'receipt', 'domain.state']);
  expect(EVENTS.filter((action) => !events.has(action) && !KNOWN.includes(action))).toEqual([]);
});
