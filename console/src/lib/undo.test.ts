import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Problem } from '#lib/api/problem.ts';
import { Resource } from '#lib/store.svelte.ts';
import { toasts } from '#lib/ui/toasts.svelte.ts';
import { inTenSeconds } from './undo.svelte.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  toasts.closeAll();
  vi.useRealTimers();
});

async function scene(send: () => Promise<unknown>) {
  let truth = ['a', 'b'];
  const on = new Resource(() => Promise.resolve(truth));
  await on.refresh();
  const act = vi.fn(async () => {
    await send();
    truth = ['b'];
  });
  inTenSeconds({
    on,
    apply: (all) => all.filter((one) => one !== 'a'),
    said: 'a is removed.',
    failed: 'a stays',
    send: act,
  });
  return { on, act };
}

test('it is shown at once, and sent when the time is over', async () => {
  const { on, act } = await scene(() => Promise.resolve());
  expect(on.data).toEqual(['b']);
  await on.refresh();
  expect(on.data).toEqual(['b']);
  await vi.advanceTimersByTimeAsync(9_900);
  expect(act).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(200);
  expect(act).toHaveBeenCalledOnce();
  expect(on.data).toEqual(['b']);
});

test('what is taken back is never sent', async () => {
  const { on, act } = await scene(() => Promise.resolve());
  expect(toasts.undoLast()).toBe(true);
  expect(on.data).toEqual(['a', 'b']);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(act).not.toHaveBeenCalled();
});

test('when the page is left it is sent then, once', async () => {
  const { act } = await scene(() => Promise.resolve());
  toasts.closeAll();
  expect(act).toHaveBeenCalledOnce();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(act).toHaveBeenCalledOnce();
});

test('what the API refuses comes back, and says so', async () => {
  const { on } = await scene(() => Promise.reject(new Problem('forbidden', 'Only an owner may.', 403)));
  await vi.advanceTimersByTimeAsync(10_100);
  expect(on.data).toEqual(['a', 'b']);
  expect(toasts.list.map(({ text }) => text)).toEqual(['a stays: Only an owner may.']);
});

test('a message that is held stays', async () => {
  const { act } = await scene(() => Promise.resolve());
  const id = toasts.list.find(({ undo }) => undo)?.id;
  toasts.hold(id ?? -1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(act).not.toHaveBeenCalled();
  toasts.resume(id ?? -1);
  await vi.advanceTimersByTimeAsync(10_100);
  expect(act).toHaveBeenCalledOnce();
});
