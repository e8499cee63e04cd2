import { expect, test } from 'vitest';
import { Problem } from '#lib/api/problem.ts';
import { covers, Resource, resource } from './store.svelte.ts';

test('a change that fails is taken back before the truth has come', async () => {
  let calls = 0;
  const never = new Promise<string[]>(() => undefined);
  const names = new Resource(() => (++calls === 1 ? Promise.resolve(['theirs']) : never));
  await names.refresh();
  const refused = names.change(
    (list) => [...list, 'mine'],
    () => Promise.reject(new Problem('forbidden', 'No.', 403)),
  );
  expect(names.data).toEqual(['theirs', 'mine']);
  await expect(refused).rejects.toThrow('No.');
  expect(names.data).toEqual(['theirs']);
  expect(calls).toBe(2);
});

test('an answer to a call from before a change does not undo it', async () => {
  let answer: (value: string) => void = () => undefined;
  const name = new Resource(() => new Promise<string>((resolve) => (answer = resolve)));
  const flight = name.refresh();
  name.set('newer');
  answer('older');
  await flight;
  expect(name.data).toBe('newer');
});

test('what was known stays when a refresh fails', async () => {
  let fails = false;
  const name = new Resource(() => (fails ? Promise.reject(new Error('away')) : Promise.resolve('known')));
  await name.refresh();
  fails = true;
  await name.refresh();
  expect([name.data, name.problem?.message]).toEqual(['known', 'away']);
});

test('a key that is made old covers its queries, and with a star what is below it', () => {
  const keys = ['/projects/a', '/projects/a?x=1', '/projects/a/env', '/projects/ab'];
  expect(keys.filter((key) => covers('/projects/a', key))).toEqual(['/projects/a', '/projects/a?x=1']);
  expect(keys.filter((key) => covers('/projects/a/*', key))).toEqual(keys.slice(0, 3));
});

test('what is gone is not shown on', async () => {
  let isGone = false;
  const site = new Resource(() =>
    isGone ? Promise.reject(new Problem('not_found', 'Gone.', 404)) : Promise.resolve('here'),
  );
  await site.refresh();
  isGone = true;
  await site.refresh();
  expect([site.data, site.problem?.status]).toEqual([undefined, 404]);
});

test('an answer that lasts is asked for once, any other whenever it is needed', async () => {
  const answers = ['not yet', 'not yet', 'good', 'not asked for'];
  const seen: (string | undefined)[] = [];
  for (let times = 0; times < 5; times++) {
    const state = resource(
      '/state',
      () => Promise.resolve(answers.shift()),
      (answer) => answer === 'good',
    );
    await new Promise((settled) => setTimeout(settled));
    seen.push(state.data);
  }
  expect(seen).toEqual(['not yet', 'not yet', 'good', 'good', 'good']);
});
