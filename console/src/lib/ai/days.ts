// What models were used for on the days of a month, as a chart shows it.

import type { AiUsageDay, ModelUsage } from '#lib/api/schema.d.ts';

const DAY_MS = 86_400_000;
/** A chart tells so many models apart; the others are one. */
const TOLD_APART = 2;
const COLOURS = ['accent', 'soft', 'warn'] as const;

export interface TokensOfDays {
  /** Seconds since 1970 of each day's beginning, in UTC. */
  times: number[];
  series: { label: string; values: number[]; colour: (typeof COLOURS)[number] }[];
}

const tokens = (used: ModelUsage) => used.prompt_tokens + used.completion_tokens;

/** Tokens of every day of `month` (`2026-11`) until `now`, of the models with the most, and of all others together. */
export function tokensOfDays(month: string, days: AiUsageDay[], now: number): TokensOfDays {
  const [year = 0, number = 1] = month.split('-').map(Number);
  const end = Math.min(Date.UTC(year, number, 1), now);
  const times: number[] = [];
  for (let day = Date.UTC(year, number - 1, 1); day < end; day += DAY_MS) times.push(day / 1000);
  const totals = new Map<string, number>();
  for (const used of days.flatMap(({ usage }) => usage))
    totals.set(used.model, (totals.get(used.model) ?? 0) + tokens(used));
  const models = [...totals].sort((a, b) => b[1] - a[1]).map(([model]) => model);
  const groups = models.slice(0, TOLD_APART).map((model) => [model]);
  if (models.length > TOLD_APART) groups.push(models.slice(TOLD_APART));
  const series = groups.map((group, place) => ({
    label: group.length === 1 ? (group[0] ?? '') : 'Others',
    values: times.map((time) => {
      const day = days.find((one) => Date.parse(one.day) / 1000 === time);
      return (day?.usage ?? [])
        .filter(({ model }) => group.includes(model))
        .reduce((sum, used) => sum + tokens(used), 0);
    }),
    colour: COLOURS[place] ?? 'warn',
  }));
  return { times, series };
}
