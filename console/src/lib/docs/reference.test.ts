import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { address, operations } from './reference.ts';

const document: unknown = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../../../openapi.json'), 'utf8'),
);

test('every operation of the API is shown, each with an id of its own', () => {
  const all = operations(document);
  expect(all.length).toBeGreaterThan(60);
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
  const create = all.find(({ method, path }) => method === 'POST' && path === '/projects');
  expect(Object.keys(JSON.parse(create?.body ?? '{}') as object)).toContain('name');
});

test('every answer says what it means, and bodies have their fields', () => {
  const all = operations(document);
  const silent = all.flatMap(({ id, answers }) =>
    answers.filter(({ description }) => !description).map(({ status }) => `${id} ${status}`),
  );
  expect(silent).toEqual([]);
  const create = all.find(({ method, path }) => method === 'POST' && path === '/projects');
  expect(create?.takes.find(({ name }) => name === 'name')).toMatchObject({ required: true, type: 'string' });
  expect(create?.gives.map(({ name }) => name)).toContain('url');
  const list = all.find(({ method, path }) => method === 'GET' && path === '/orgs/{name}');
  expect(list?.gives.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['members', 'members[].login', 'role']),
  );
});

test('parameters go where they belong, and nowhere else', () => {
  const all = operations(document);
  const live = all.find(({ path }) => path === '/projects/{name}/stats');
  if (!live) throw new Error('the API has no statistics');
  expect(address(live, { name: '../x', hours: '24' })).toBe('/projects/..%2Fx/stats?hours=24');
});
