import { expect, test } from 'vitest';

// Where the day before has not ended yet. Formats take the zone when they are made.
process.env['TZ'] = 'America/Los_Angeles';
const { moment, tick } = await import('./moments.ts');

const MIDNIGHT = Date.UTC(2026, 10, 22) / 1000;

test("a day is UTC's everywhere", () => {
  expect(moment(MIDNIGHT, false)).toMatch(/22/);
  expect(tick(MIDNIGHT, false)).toMatch(/22/);
});

test("an hour is the reader's", () => {
  expect(new Date(MIDNIGHT * 1000).getHours()).toBe(16);
  expect(moment(MIDNIGHT, true)).toMatch(/(16|0?4):00/);
  expect(tick(MIDNIGHT + 8 * 3_600, true)).toMatch(/22/);
});
