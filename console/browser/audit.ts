// Looks for what no page may have: findings of axe, in both themes and widths, violations of the page's policy, errors, and parts that
// move while the page loads. SVC_AUDIT_ONLY names the pages to look at.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults, RunOnly } from 'axe-core';
import type { Page as Tab } from 'playwright-core';
import { failures, launch, open, profile, signedIn, THEMES, WIDTHS } from './chromium.ts';
import { complaints, moved, watch } from './complaints.ts';
import { consolePages, serverPages } from './routes.ts';

/** Two pages at a time: while one loads, the other is looked at. */
const TABS = 2;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** The rules that depend on colours or on the width; all the rest is asked once. */
const OF_LOOK = ['color-contrast', 'link-in-text-block', 'target-size', 'scrollable-region-focusable'];
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

const only = new RegExp(process.env['SVC_AUDIT_ONLY'] ?? '');
const waiting = [...consolePages(), ...serverPages()].filter(({ name }) => only.test(name));
const count = waiting.length;
const found: string[] = [];

const browser = await launch();
const state = await signedIn(browser);
const [member, stranger] = [await profile(browser, { state }), await profile(browser)];
await Promise.all([watch(member), watch(stranger)]);

async function work(): Promise<void> {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const tab = await (next.isSignedIn ? member : stranger).newPage();
    await open(tab, next.url);
    found.push(...(await moved(tab)).map((text) => `${next.name}, ${WIDTHS[0]} px, ${text}`));
    found.push(...(await failures(tab)).map((text) => `${next.name} says: ${text}`));
    let isFirst = true;
    for (const width of WIDTHS) {
      await tab.setViewportSize({ width, height: width < 500 ? 640 : 860 });
      for (const colorScheme of THEMES) {
        await tab.emulateMedia({ colorScheme });
        await examine(tab, `${next.name}, ${colorScheme}, ${width} px`, isFirst);
        isFirst = false;
      }
    }
    found.push(...(await complaints(tab)).map((complaint) => `${next.name}: ${complaint}`));
    await tab.close();
    // How a page moves while it loads is another thing on a phone.
    const narrow = await (next.isSignedIn ? member : stranger).newPage();
    await narrow.setViewportSize({ width: WIDTHS[1], height: 640 });
    await open(narrow, next.url);
    found.push(...(await moved(narrow)).map((text) => `${next.name}, ${WIDTHS[1]} px, ${text}`));
    await narrow.close();
  }
}

async function examine(tab: Tab, where: string, isFirst: boolean): Promise<void> {
  const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (overflow > 0) found.push(`${where}: wider than the window by ${overflow} px`);
  await tab.evaluate(`window.axe || (() => { ${AXE} })()`);
  const results = await tab.evaluate<AxeResults, RunOnly>(
    (runOnly) =>
      (window as unknown as { axe: typeof import('axe-core') }).axe.run({
        runOnly,
        resultTypes: ['violations'],
      }),
    isFirst ? { type: 'tag', values: TAGS } : { type: 'rule', values: OF_LOOK },
  );
  for (const { id, help, nodes } of results.violations) {
    for (const { target, failureSummary = '' } of nodes.slice(0, 3)) {
      found.push(
        `${where}: ${id} (${help}) at ${target.join(' ')}: ${failureSummary.replaceAll(/\s+/g, ' ')}`,
      );
    }
  }
}

await Promise.all(Array.from({ length: TABS }, work));
await browser.close();
if (found.length > 0) throw new Error(`${found.length} findings\n${found.join('\n')}`);
console.log(`${count} pages, each in ${THEMES.length} themes and ${WIDTHS.length} widths: no finding`);
