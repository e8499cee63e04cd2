import { afterEach, beforeEach, expect, test, vi } from 'vitest';

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetModules();
});
afterEach(() => {
  vi.useRealTimers();
});

const fresh = async () => (await import('./pace.svelte.ts')).pace;
const answer = (status: number, headers: Record<string, string> = {}) =>
  new Response(null, { status, headers });
const get = () => new Request('https://app.example/api/projects');

test('a refusal is waited out, and nobody hears of it', async () => {
  const pace = await fresh();
  const answers = [answer(429, { 'Retry-After': '7', 'X-RateLimit-Remaining': '0' }), answer(200)];
  const send = vi.fn(() => Promise.resolve(answers.shift() ?? answer(500)));
  const asked = pace.send(get(), send);
  await vi.advanceTimersByTimeAsync(6_500);
  expect(send).toHaveBeenCalledTimes(1);
  expect(pace.until).toBeDefined();
  const other = vi.fn(() => Promise.resolve(answer(200)));
  const meanwhile = pace.send(get(), other);
  await vi.advanceTimersByTimeAsync(100);
  expect(other).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(2_000);
  expect((await asked).status).toBe(200);
  expect((await meanwhile).status).toBe(200);
  expect(pace.until).toBeUndefined();
});

test('an act that would wait for long is not done, and says so', async () => {
  const pace = await fresh();
  const act = new Request('https://app.example/api/projects', { method: 'POST', body: '{}' });
  const send = vi.fn(() => Promise.resolve(answer(429, { 'Retry-After': '40' })));
  expect((await pace.send(act, send)).status).toBe(429);
  expect(send).toHaveBeenCalledTimes(1);
});

test('a busy server is asked again, and not for ever', async () => {
  const pace = await fresh();
  const send = vi.fn(() => Promise.resolve(answer(503, { 'Retry-After': '1' })));
  const asked = pace.send(get(), send);
  await vi.advanceTimersByTimeAsync(20_000);
  expect((await asked).status).toBe(503);
  expect(send).toHaveBeenCalledTimes(4);
});

test('few questions are under way at once', async () => {
  const pace = await fresh();
  let under = 0;
  let most = 0;
  const send = async () => {
    under += 1;
    most = Math.max(most, under);
    await new Promise((resolve) => setTimeout(resolve, 50));
    under -= 1;
    return answer(200);
  };
  const all = Promise.all(Array.from({ length: 40 }, () => pace.send(get(), send)));
  await vi.advanceTimersByTimeAsync(2_000);
  await all;
  expect(most).toBe(6);
});
