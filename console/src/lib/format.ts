// Numbers and times as people read them: in the language of the sentences around them, whatever the browser's is.

/** The language of the console's sentences, with days before months and clocks of 24 hours. */
export const LOCALE = 'en-GB';

export const KB = 1024;
export const MB = 1024 * KB;
export const GB = 1024 * MB;

const UNITS = ['B', 'KB', 'MB', 'GB'] as const;

/** Bytes in the unit of the limits, in which a KB has 1,024 of them: `1.2 MB`. Nothing is larger than a GB. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= (unit === 0 ? 1024 : 1023.5) && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toLocaleString(LOCALE, { maximumFractionDigits: digits })} ${UNITS[unit]}`;
}

export function count(value: number): string {
  return value.toLocaleString(LOCALE);
}

/** A count with its noun: `1 file`, `2 files`. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/** Euro cents: `€12.30`. */
export function euros(cents: number): string {
  return (cents / 100).toLocaleString(LOCALE, { style: 'currency', currency: 'EUR' });
}

/**
 * Millionths of a euro cent, with all their digits and two at least: `€0.0123`. What single completions cost adds up to what is shown for
 * a month. Servers that say it in whole cents alone, rounded up, have `cents` shown.
 */
export function spent(microcents: number | null | undefined, cents: number): string {
  if (microcents == null) return euros(cents);
  return (microcents / 100_000_000).toLocaleString(LOCALE, {
    style: 'currency',
    currency: 'EUR',
    maximumFractionDigits: 8,
  });
}

const STEPS: [limit: number, seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [60, 1, 'second'],
  [3_600, 60, 'minute'],
  [86_400, 3_600, 'hour'],
  [30 * 86_400, 86_400, 'day'],
  [365 * 86_400, 30 * 86_400, 'month'],
  [Infinity, 365 * 86_400, 'year'],
];

/** A time as seen from `now`: `3 minutes ago`, `in 2 days`. */
export function relative(time: string | number | Date, now: number): string {
  const seconds = (new Date(time).getTime() - now) / 1000;
  if (Math.abs(seconds) < 10) return 'just now';
  const format = new Intl.RelativeTimeFormat(LOCALE, { numeric: 'auto' });
  const [, size, unit] = STEPS.find(([limit]) => Math.abs(seconds) < limit) ?? [0, 1, 'second'];
  return format.format(Math.round(seconds / size), unit);
}

/** The day of a time: `28 Dec 2026`. */
export function day(time: string | number | Date): string {
  return new Date(time).toLocaleDateString(LOCALE, { dateStyle: 'medium' });
}

/** A time to the second, in the reader's zone. */
export function exact(time: string | number | Date): string {
  return new Date(time).toLocaleString(LOCALE, { dateStyle: 'medium', timeStyle: 'long' });
}
