// Looks for what no page may have: findings of axe, in both themes and widths, violations of the page's policy, errors, and parts that
// move while the page loads. SVC_AUDIT_ONLY names the pages to look at.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults, RunOnly } from 'axe-core';
import type { Page as Tab } from 'playwright-core';
import { failures, launch, open, profile, signedIn, THEMES, WIDTHS, type Theme } from './chromium.ts';
import { complaints, moved, watch } from './complaints.ts';
import { consolePages, serverPages, type Page } from './routes.ts';

/** Two pages at a time: while one loads, the other is looked at. */
const TABS = 2;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** The rules that depend on colours, and those that depend on the width; all the rest is asked once. */
const OF_COLOUR = ['color-contrast', 'link-in-text-block'];
const OF_WIDTH = ['target-size', 'scrollable-region-focusable'];
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

const only = new RegExp(process.env['SVC_AUDIT_ONLY'] ?? '');
const waiting = [...consolePages(), ...serverPages()].filter(({ name }) => only.test(name));
const count = waiting.length;
if (count === 0) throw new Error('no page is looked at');
const found: string[] = [];

const browser = await launch();
const state = await signedIn(browser);
const [member, stranger] = [await profile(browser, { state }), await profile(browser)];
await Promise.all([watch(member), watch(stranger)]);

/** Pages are opened in the same tab one after the other: a tab of its own is a process of its own, which starts as long as two pages load. */
async function work(): Promise<void> {
  const tabs = { member: await member.newPage(), stranger: await stranger.newPage() };
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    await look(next.isSignedIn ? tabs.member : tabs.stranger, next);
  }
}

async function look(tab: Tab, { name, url }: Page): Promise<void> {
  await resize(tab, WIDTHS[0]);
  await open(tab, url);
  found.push(...(await moved(tab)).map((text) => `${name}, ${WIDTHS[0]} px, ${text}`));
  found.push(...(await failures(tab)).map((text) => `${name} says: ${text}`));
  await tab.evaluate(AXE);
  for (const width of WIDTHS) {
    await resize(tab, width);
    for (const theme of THEMES) await examine(tab, name, width, theme);
  }
  found.push(...(await complaints(tab)).map((complaint) => `${name}: ${complaint}`));
  // How a page moves while it loads is another thing on a phone, whose width the tab has now.
  await open(tab, url);
  found.push(...(await moved(tab)).map((text) => `${name}, ${WIDTHS[1]} px, ${text}`));
  found.push(...(await complaints(tab)).map((complaint) => `${name}, ${WIDTHS[1]} px: ${complaint}`));
}

async function resize(tab: Tab, width: number): Promise<void> {
  await tab.setViewportSize({ width, height: width < 500 ? 640 : 860 });
}

async function examine(tab: Tab, name: string, width: number, theme: Theme): Promise<void> {
  await tab.emulateMedia({ colorScheme: theme });
  const where = `${name}, ${theme}, ${width} px`;
  const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (overflow > 0) found.push(`${where}: wider than the window by ${overflow} px`);
  const isFirstOfWidth = theme === THEMES[0];
  const isFirst = isFirstOfWidth && width === WIDTHS[0];
  const results = await tab.evaluate<AxeResults, RunOnly>(
    (runOnly) =>
      (window as unknown as { axe: typeof import('axe-core') }).axe.run({
        runOnly,
        resultTypes: ['violations'],
      }),
    isFirst
      ? { type: 'tag', values: TAGS }
      : { type: 'rule', values: isFirstOfWidth ? [...OF_COLOUR, ...OF_WIDTH] : OF_COLOUR },
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
