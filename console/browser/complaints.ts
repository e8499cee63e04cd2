// What a page complains of while it loads and is used: violations of its policy, errors, and parts that move.

import type { BrowserContext, Page } from 'playwright-core';

/** The sum of layout shifts above which a page is said to move. */
export const MOST_SHIFT = 0.02;

interface Watched {
  violations: string[];
  shift: number;
  /** The parts that moved most. */
  moved: string[];
}

const errors = new WeakMap<Page, string[]>();

/** Watches every page that is opened from now on. */
export async function watch(context: BrowserContext): Promise<void> {
  context.on('page', (page) => {
    const list: string[] = [];
    errors.set(page, list);
    // Firefox asks for an icon of pages that are rendered by the server, which have none.
    const isIcon = (text: string) => text.includes('/favicon.ico');
    page.on('pageerror', (error) => isIcon(error.message) || list.push(`error: ${error.message}`));
    page.on('dialog', (dialog) => {
      list.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('console', (message) => {
      if (isIcon(message.text())) return;
      if (/Content Security Policy|Trusted ?(Types|HTML|Script)/i.test(message.text()))
        list.push(message.text());
    });
  });
  await context.addInitScript(() => {
    const watched: Watched = { violations: [], shift: 0, moved: [] };
    Object.assign(window, { watched });
    addEventListener('securitypolicyviolation', (event) =>
      watched.violations.push(`${event.effectiveDirective} refused ${event.blockedURI} ${event.sample}`),
    );
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & {
        value: number;
        hadRecentInput: boolean;
        sources: { node: Node | null; previousRect: DOMRectReadOnly; currentRect: DOMRectReadOnly }[];
      })[]) {
        if (entry.hadRecentInput) continue;
        watched.shift += entry.value;
        for (const { node, previousRect, currentRect } of entry.sources.slice(0, 2)) {
          const element = node instanceof Element ? node : node?.parentElement;
          const name = `${element?.tagName.toLowerCase() ?? '?'}.${String(element?.getAttribute('class'))}`;
          const from = `${Math.round(previousRect.x)},${Math.round(previousRect.y)}`;
          const to = `${Math.round(currentRect.x)},${Math.round(currentRect.y)}`;
          const text = (node?.textContent ?? '').trim().slice(0, 30);
          watched.moved.push(`${entry.value.toFixed(4)} ${name} “${text}” ${from} → ${to}`);
        }
      }
    }).observe({ type: 'layout-shift', buffered: true });
  });
}

/** The sum of the page's layout shifts so far. */
export function shift(page: Page): Promise<number> {
  return page.evaluate(() => (window as unknown as { watched: Watched }).watched.shift);
}

/** The parts that moved while the page loaded, when they moved too far. */
export async function moved(page: Page): Promise<string[]> {
  const { shift, moved } = await page.evaluate(() => (window as unknown as { watched: Watched }).watched);
  return shift < MOST_SHIFT
    ? []
    : [`moves by ${shift.toFixed(4)}: ${moved.sort().reverse().slice(0, 4).join('; ')}`];
}

/** What the page has complained of since it was last asked. */
export async function complaints(page: Page): Promise<string[]> {
  const violations = await page.evaluate(() =>
    (window as unknown as { watched: Watched }).watched.violations.splice(0),
  );
  return [...(errors.get(page)?.splice(0) ?? []), ...violations];
}
