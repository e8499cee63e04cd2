import { expect, test } from 'vitest';
import {
  byDay,
  byHour,
  compared,
  datesOf,
  filtersOf,
  options,
  periodOf,
  RANGES,
  search,
  withQuery,
} from './period.ts';

const TODAY = '2026-03-01';
const of = (query: string) => periodOf(new URLSearchParams(query), TODAY);

test('an address asks for a range or for dates', () => {
  expect(of('')).toBe(RANGES[0]);
  expect(of('range=90d')).toBe(RANGES[3]);
  expect(of('range=nonsense')).toBe(RANGES[0]);
  expect(of('from=2026-02-01&to=2026-02-03&range=90d')).toEqual({ from: '2026-02-01', to: '2026-02-03' });
  expect(of('from=2026-02-01')).toEqual({ from: '2026-02-01', to: TODAY });
  for (const wrong of ['from=2026-02-30', 'from=yesterday', 'to=2026-02-01', 'from=2026-2-1'])
    expect(of(wrong), wrong).toBe(RANGES[0]);
});

test('a period has its first and its last day', () => {
  expect(datesOf(of('range=30d'), TODAY)).toEqual({ from: '2026-01-31', to: TODAY });
  expect(datesOf(of(''), TODAY)).toEqual({ from: TODAY, to: TODAY });
  expect(byDay(of('range=72h'))).toEqual({ days: 3 });
  expect(byDay(of('from=2025-12-31&to=2026-01-01'))).toEqual({ from: '2025-12-31', to: '2026-01-01' });
});

test('few days of the last week are told by the hour', () => {
  expect(byHour(of('range=72h'), TODAY)).toEqual({ hours: 72 });
  expect(byHour(of('range=30d'), TODAY)).toBe(undefined);
  expect(byHour(of('from=2026-02-22&to=2026-02-24'), TODAY)).toEqual({
    from: '2026-02-22',
    to: '2026-02-24',
  });
  expect(byHour(of('from=2026-02-21&to=2026-02-22'), TODAY)).toBe(undefined);
  expect(byHour(of('from=2026-02-24&to=2026-02-27'), TODAY)).toBe(undefined);
});

test('filters are those of the address, and come off it again', () => {
  const query = new URLSearchParams('range=30d&page=/a%20b&referrer=&country=&other=1');
  expect(filtersOf(query)).toEqual({ page: '/a b', referrer: '' });
  expect(withQuery(query, { page: undefined, country: 'DE' })).toBe(
    '?range=30d&referrer=&country=DE&other=1',
  );
  expect(search({ days: 30, ...filtersOf(query) })).toBe('days=30&page=%2Fa+b&referrer=');
  expect(options({ days: 30, page: "/it's", referrer: '' })).toBe(
    `--days 30 --page '/it'\\''s' --referrer ''`,
  );
});

test('the time before is told as long as it is known, and in percent as long as that is fair', () => {
  const told = (number: number, before: number | null, query: string) =>
    compared(number, before, of(query), TODAY);
  expect(told(112, 100, 'range=30d')).toBe('100 in the 30 days before (+12%)');
  expect(told(1, 1_200, 'range=24h')).toBe('1,200 in the 24 hours before (−100%)');
  expect(told(5, 0, 'range=30d')).toBe('0 in the 30 days before');
  expect(told(5, 5, 'from=2026-02-01&to=2026-02-01')).toBe('5 in the day before (±0%)');
  expect(told(5, 9, 'from=2026-02-28')).toBe('9 in the 2 days before');
  expect(told(5, null, 'range=1y')).toBe('');
});
