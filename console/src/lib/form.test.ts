import { expect, test } from 'vitest';
import { Problem } from '#lib/api/problem.ts';
import { Form } from './form.svelte.ts';

test('a form is sent once at a time, and can be sent again when it failed', async () => {
  let sent = 0;
  let refuse: (problem: Problem) => void = () => undefined;
  const form = new Form(() => {
    sent += 1;
    return sent === 1 ? new Promise((_, reject) => (refuse = reject)) : Promise.resolve();
  });
  const first = form.run();
  expect([form.busy, await form.run(), sent]).toEqual([true, false, 1]);
  refuse(new Problem('conflict', 'The name is taken.', 409));
  expect([await first, form.busy, form.problem?.message]).toEqual([false, false, 'The name is taken.']);
  expect([await form.run(), form.problem, sent]).toEqual([true, undefined, 2]);
});
