import { expect, test } from 'vitest';
import { Problem } from '#lib/api/problem.ts';
import { Resource } from './store.svelte.ts';

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
