// What a page complains of while it loads and is used: violations of its policy, errors, and parts that move.

import type { BrowserContext, Page } from 'playwright-core';

/** The sum of layout shifts above which a page is said to move. */
export const MOST_SHIFT = 0.02;

interface Watched {
  violations: string[];
  shift: number;
}

const errors = new WeakMap<Page, string[]>();

/** Watches every page that is opened from now on. */
export async function watch(context: BrowserContext): Promise<void> {
  context.on('page', (page) => {
    const list: string[] = [];
    errors.set(page, list);
    page.on('pageerror', (error) => list.push(`error: ${error.message}`));
    page.on('dialog', (dialog) => {
      list.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('console', (message) => {
      if (/Content Security Policy|Trusted ?(Types|HTML|Script)/i.test(message.text()))
        list.push(message.text());
    });
  });
  await context.addInitScript(() => {
    const watched: Watched = { violations: [], shift: 0 };
    Object.assign(window, { watched });
    addEventListener('securitypolicyviolation', (event) =>
      watched.violations.push(`${event.effectiveDirective} refused ${event.blockedURI} ${event.sample}`),
    );
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & {
        value: number;
        hadRecentInput: boolean;
      })[]) {
        if (!entry.hadRecentInput) watched.shift += entry.value;
      }
    }).observe({ type: 'layout-shift', buffered: true });
  });
}

/** The sum of the page's layout shifts so far. */
export function shift(page: Page): Promise<number> {
  return page.evaluate(() => (window as unknown as { watched: Watched }).watched.shift);
}

/** The page's complaints so far, and the parts that its loading moved. */
export async function complaints(page: Page): Promise<string[]> {
  const { violations } = await page.evaluate(() => (window as unknown as { watched: Watched }).watched);
  return [...(errors.get(page) ?? []), ...violations];
}
