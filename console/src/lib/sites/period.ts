// The time that statistics are asked for, and the views among them, as the address of the page has them.

import { count, counted } from '#lib/format.ts';

/** The ranges that people choose from. Hours are told by the hour, days by the day. */
export const RANGES = [
  { key: '24h', label: '24 h', hours: 24 },
  { key: '72h', label: '72 h', hours: 72 },
  { key: '30d', label: '30 d', days: 30 },
  { key: '90d', label: '90 d', days: 90 },
  { key: '1y', label: '1 y', days: 365 },
] as const;

/** Days that are kept before today, those of them whose hours are, and days that are told by the hour at a time. */
export const DAYS_KEPT = 400;
const DAYS_OF_HOURS_KEPT = 7;
const MOST_DAYS_BY_HOUR = 3;
/** A comparison of fewer days says little while the last of them is not over. */
const FAIR_DAYS = 7;

const DAY_MS = 86_400_000;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** Days as `YYYY-MM-DD`, in UTC, both included. */
export interface Dates {
  from: string;
  to: string;
}

/** The parameters of an address. */
type Query = Pick<URLSearchParams, 'get' | typeof Symbol.iterator>;

export type Period = (typeof RANGES)[number] | Dates;

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** Today in UTC. */
export const today = (now: number): string => dayOf(now);

/** The day so many days before another. */
export const daysBefore = (day: string, days: number): string => dayOf(Date.parse(day) - days * DAY_MS);

const isDay = (text: string | null): text is string =>
  text !== null && DATE.test(text) && !Number.isNaN(Date.parse(text)) && dayOf(Date.parse(text)) === text;

/** The period that an address asks for; the shortest range when it asks for none. */
export function periodOf(query: Query, day: string): Period {
  const [from, to] = [query.get('from'), query.get('to')];
  if (isDay(from)) return { from, to: isDay(to) ? to : day };
  return RANGES.find(({ key }) => key === query.get('range')) ?? RANGES[0];
}

export const areDates = (period: Period): period is Dates => 'from' in period;

/** The number of the period's days. Reports of people, programs and errors are by day only. */
export function daysOf(period: Period): number {
  if (areDates(period)) return Math.round((Date.parse(period.to) - Date.parse(period.from)) / DAY_MS) + 1;
  return 'days' in period ? period.days : Math.ceil(period.hours / 24);
}

/** The first day and the last. */
export function datesOf(period: Period, day: string): Dates {
  return areDates(period) ? period : { from: daysBefore(day, daysOf(period) - 1), to: day };
}

/** What to ask of reports by day. */
export function byDay(period: Period): { days: number } | Dates {
  return areDates(period) ? { from: period.from, to: period.to } : { days: daysOf(period) };
}

/** What to ask of reports by hour, if the period is told by the hour. */
export function byHour(period: Period, day: string): { hours: number } | Dates | undefined {
  if (!areDates(period)) return 'hours' in period ? { hours: period.hours } : undefined;
  const isKept = period.from >= daysBefore(day, DAYS_OF_HOURS_KEPT) && daysOf(period) <= MOST_DAYS_BY_HOUR;
  return isKept ? (byDay(period) as Dates) : undefined;
}

/** What rows can be clicked for: the views that have all of these. */
export const FILTERS = ['page', 'referrer', 'country'] as const;
export type Filters = Partial<Record<(typeof FILTERS)[number], string>>;

/** The views that an address asks for. One that no other site led to has an empty referrer. */
export function filtersOf(query: Query): Filters {
  const found: Filters = {};
  for (const filter of FILTERS) {
    const value = query.get(filter);
    if (value !== null && (value !== '' || filter === 'referrer')) found[filter] = value;
  }
  return found;
}

/** The address with some of its parameters changed, or left out. */
export function withQuery(query: Query, changes: Record<string, string | undefined>): string {
  const changed = new URLSearchParams([...query]);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) changed.delete(name);
    else changed.set(name, value);
  }
  return `?${changed}`;
}

/** Parameters as the API takes them. */
export function search(query: object): string {
  return new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
}

/** The options of `svc stats` for the same. */
export function options(query: object): string {
  const quoted = (value: unknown) =>
    /^[\w./:-]+$/.test(String(value)) ? String(value) : `'${String(value).replaceAll("'", `'\\''`)}'`;
  return Object.entries(query)
    .map(([name, value]) => `--${name} ${quoted(value)}`)
    .join(' ');
}

/** How a number compares with that of the time before: `340 in the 30 days before (+12%)`. Empty where that is not known. */
export function compared(
  number: number,
  before: number | null | undefined,
  period: Period,
  day: string,
): string {
  if (before === null || before === undefined) return '';
  const isByHour = !areDates(period) && 'hours' in period;
  const [length, unit] = isByHour ? [period.hours, 'hour'] : [daysOf(period), 'day'];
  const told = `${count(before)} in the ${length === 1 ? unit : counted(length, unit)} before`;
  // What is not over is less than what is.
  const isUnfair = !isByHour && length < FAIR_DAYS && datesOf(period, day).to >= day;
  if (before === 0 || isUnfair) return told;
  const percent = Math.round(((number - before) / before) * 100);
  return `${told} (${percent > 0 ? '+' : percent < 0 ? '−' : '±'}${count(Math.abs(percent))}%)`;
}
