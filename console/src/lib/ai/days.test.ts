import { expect, test } from 'vitest';
import { tokensOfDays } from './days.ts';

const used = (model: string, tokens: number) => ({
  model,
  requests: 1,
  prompt_tokens: tokens - 1,
  completion_tokens: 1,
});

test('every day of a month that is over is there', () => {
  const days = [{ day: '2026-02-03', usage: [used('svc/a', 10)] }];
  const { times, series } = tokensOfDays('2026-02', days, Date.UTC(2026, 5, 1));
  expect(times.length).toBe(28);
  expect(times[2]).toBe(Date.UTC(2026, 1, 3) / 1000);
  expect(series).toEqual([
    { label: 'svc/a', values: times.map((_, day) => (day === 2 ? 10 : 0)), colour: 'accent' },
  ]);
});

test('the present month ends today, and small models are one', () => {
  const days = [
    { day: '2026-11-01', usage: [used('svc/a', 5), used('svc/b', 50), used('svc/c', 4), used('svc/d', 3)] },
    { day: '2026-11-02', usage: [used('svc/a', 6)] },
  ];
  const { times, series } = tokensOfDays('2026-11', days, Date.UTC(2026, 10, 2, 12));
  expect(times.length).toBe(2);
  expect(series.map(({ label, values }) => [label, ...values])).toEqual([
    ['svc/b', 50, 0],
    ['svc/a', 5, 6],
    ['Others', 7, 0],
  ]);
});
