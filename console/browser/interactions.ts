// How long it takes from a press or a key until the page shows what came of it ("interaction to next paint"). Chromium tells; figures that
// are printed, and assert nothing.

import type { BrowserContext, Page } from 'playwright-core';
import { isFirefox } from './chromium.ts';

/** Shorter ones are not told: a frame takes as long. */
const LEAST_MS = 16;

export interface Interaction {
  ms: number;
  /** What was done, and to what. */
  what: string;
}

let seen: Interaction[] = [];
let slower = 1;

/** Watches every page that is opened from now on. */
export async function watchInteractions(context: BrowserContext): Promise<void> {
  if (isFirefox) return;
  await context.exposeBinding('tellInteraction', (_, ms: number, what: string) => seen.push({ ms, what }));
  await context.addInitScript((durationThreshold) => {
    type Told = PerformanceEventTiming & { interactionId: number };
    const { tellInteraction } = window as unknown as { tellInteraction: (ms: number, what: string) => void };
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as Told[]) {
        const { interactionId, startTime, processingStart, processingEnd, duration, name, target } = entry;
        if (interactionId === 0) continue;
        const element =
          target instanceof Element ? (target.closest('a, button, input, label') ?? target) : null;
        const text = (element?.getAttribute('aria-label') ?? element?.textContent ?? '').trim();
        const tag = element?.tagName.toLowerCase() ?? 'what is gone';
        const parts = [
          `waited ${Math.round(processingStart - startTime)}`,
          `worked ${Math.round(processingEnd - processingStart)}`,
        ];
        tellInteraction(
          duration,
          `${name} on ${tag} “${text.slice(0, 30)}” at ${location.pathname}, ${parts.join(', ')}`,
        );
      }
    }).observe({ type: 'event', buffered: true, durationThreshold } as PerformanceObserverInit);
  }, LEAST_MS);
}

/** Has the pages of visitors run on a machine that is so many times slower. */
export function makeSlower(times: number): void {
  slower = times;
}

/** Makes a page as slow as was asked for. */
export async function slowDown(page: Page): Promise<void> {
  if (slower === 1 || isFirefox) return;
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: slower });
}

/** The slowest interaction since this was last asked, if one took longer than a frame. */
export function slowest(): Interaction | undefined {
  const [first] = seen.sort((a, b) => b.ms - a.ms);
  seen = [];
  return first;
}
