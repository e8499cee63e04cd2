// Moments of charts. Hours are the reader's; days are UTC's, wherever they are looked at.

import { LOCALE } from '#lib/format.ts';

const format = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(LOCALE, options);

// Made once: a year has hundreds of moments.
const hour = format({ weekday: 'short', hour: '2-digit', minute: '2-digit' });
const day = format({ dateStyle: 'medium', timeZone: 'UTC' });
const hourTick = format({ hour: '2-digit', minute: '2-digit' });
const midnightTick = format({ day: 'numeric', month: 'short' });
const dayTick = format({ day: 'numeric', month: 'short', timeZone: 'UTC' });

/** The hour or the day that begins `seconds` after 1970, in words. */
export function moment(seconds: number, byHour: boolean): string {
  return (byHour ? hour : day).format(seconds * 1000);
}

/** The same as a mark of an axis: hours as hours, and the first of a day as its day. */
export function tick(seconds: number, byHour: boolean): string {
  const at = new Date(seconds * 1000);
  if (!byHour) return dayTick.format(at);
  return (at.getHours() === 0 ? midnightTick : hourTick).format(at);
}
