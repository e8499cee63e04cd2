// Measures what the console costs a slow machine on a slow line, and prints it: what the first load weighs, when the home page can be
// used, what moves while pages load, and how long each journey's slowest interaction takes to show. With SVC_LIGHTHOUSE, the folder in
// which it is installed, Lighthouse's scores too.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { launch, open, profile, signedIn, signIn } from './chromium.ts';
import { shift, watch } from './complaints.ts';
import { makeSlower, slowDown, slowest, watchInteractions } from './interactions.ts';
import { journeys, Walk } from './journeys.ts';
import { parts } from './people/parts.ts';
import type { Journey } from './people/visitor.ts';
import { consolePages, serverPages } from './routes.ts';
import { scene } from './scene.ts';

const SLOWER = 4;
const LINE = {
  offline: false,
  latency: 150,
  downloadThroughput: 1_600_000 / 8,
  uploadThroughput: 750_000 / 8,
};
const LOADS = 5;
const DEBUGGING_PORT = 9_333;

const figures: [what: string, value: string, bound: string][] = [];
const tell = (what: string, value: string, bound = '') => {
  figures.push([what, value, bound]);
  console.log(`${what.padEnd(58)} ${value.padStart(12)}  ${bound}`);
};
const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

const browser = await launch([`--remote-debugging-port=${DEBUGGING_PORT}`]);
const state = await signedIn(browser);
await weights();
await visits(browser);
await shifts(browser);
await interactions(browser);
await together(browser);
if (process.env['SVC_LIGHTHOUSE']) await scores(process.env['SVC_LIGHTHOUSE']);
await browser.close();
const folder = process.env['SVC_SHOTS'];
if (folder) writeFileSync(join(folder, 'figures.json'), JSON.stringify(figures, null, 2));

/** Makes the page slow. */
async function slow(page: Page, withLine: boolean): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: SLOWER });
  if (!withLine) return;
  await devtools.send('Network.enable');
  await devtools.send('Network.emulateNetworkConditions', LINE);
}

async function weights(): Promise<void> {
  const context = await profile(browser, { state });
  const page = await context.newPage();
  await open(page, scene.console);
  const sizes = await page.evaluate(() =>
    (performance.getEntriesByType('resource') as PerformanceResourceTiming[]).map(
      ({ name, encodedBodySize }) => [new URL(name).pathname, encodedBodySize] as const,
    ),
  );
  const sum = (end: string) =>
    sizes.filter(([path]) => path.endsWith(end)).reduce((total, [, size]) => total + size, 0);
  tell('home page, compressed script', `${(sum('.js') / 1000).toFixed(1)} kB`, 'at most 60 kB');
  tell('home page, compressed style', `${(sum('.css') / 1000).toFixed(1)} kB`, 'at most 15 kB');
  tell('home page, requests', String(sizes.length));
  await context.close();
}

/** The time until the first site of the list is there to be pressed. */
async function usable(context: BrowserContext): Promise<number> {
  const page = await context.newPage();
  await slow(page, true);
  await page.goto(scene.console, { waitUntil: 'commit' });
  const at = await page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        const look = () => {
          if (!document.querySelector('main a[href^="/sites/"]')) return requestAnimationFrame(look);
          return requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
        };
        look();
      }),
  );
  await page.close();
  return at;
}

async function visits(browser: Browser): Promise<void> {
  const [first, second]: [number[], number[]] = [[], []];
  for (let load = 0; load < LOADS; load += 1) {
    const context = await profile(browser, { state });
    first.push(await usable(context));
    second.push(await usable(context));
    await context.close();
  }
  tell('home page usable, first visit, median', `${Math.round(median(first))} ms`, 'at most 2,000 ms');
  tell('home page usable, second visit, median', `${Math.round(median(second))} ms`, 'at most 1,000 ms');
}

async function shifts(browser: Browser): Promise<void> {
  const [member, stranger] = [await profile(browser, { state }), await profile(browser)];
  await Promise.all([watch(member), watch(stranger)]);
  const all: [name: string, shift: number][] = [];
  for (const { name, url, isSignedIn } of [...consolePages(), ...serverPages()]) {
    const page = await (isSignedIn ? member : stranger).newPage();
    await slow(page, false);
    await open(page, url);
    all.push([name, await shift(page)]);
    await page.close();
  }
  for (const [name, sum] of all.sort((a, b) => b[1] - a[1]).slice(0, 5)) {
    tell(`layout shift, ${name}`, sum.toFixed(4), 'below 0.02');
  }
  await member.close();
  await stranger.close();
}

async function interactions(browser: Browser): Promise<void> {
  makeSlower(SLOWER);
  const context = await profile(browser);
  await watchInteractions(context);
  const walk = new Walk(await context.newPage());
  await slowDown(walk.page);
  for (const [name, journey] of Object.entries(journeys)) {
    await journey(walk, browser);
    tellSlowest(name);
  }
  await context.close();
  // An account of 2,500 sites is not of this scene.
  const { many: _, ...rest } = parts;
  for (const [name, journey] of Object.values(rest).flatMap(Object.entries<Journey>)) {
    await journey(browser).catch((error: unknown) => console.log(`${name}: ${String(error)}`));
    tellSlowest(name);
    for (const context of browser.contexts()) await context.close();
  }
}

function tellSlowest(journey: string): void {
  const interaction = slowest();
  tell(
    `interaction to next paint, ${journey}`,
    interaction ? `${interaction.ms} ms` : '< 16 ms',
    'below 100 ms',
  );
  if (interaction) console.log(`    ${interaction.what}`);
}

/** From the press of one person to what another sees of it. */
async function together(browser: Browser): Promise<void> {
  const page = `${scene.console}/sites/handbook/environment`;
  const [ada, grace] = await Promise.all(
    ['ada', 'grace'].map(async (login) => {
      const member = await (await profile(browser)).newPage();
      await signIn(member, login);
      await open(member, page);
      return member;
    }),
  );
  if (!ada || !grace) return;
  const times: number[] = [];
  for (let turn = 0; turn < LOADS; turn += 1) {
    await ada.getByRole('textbox').fill(`TURN_${turn}=1`);
    const pressed = performance.now();
    await ada.getByRole('button', { name: 'Set 1 variable' }).click();
    await grace.locator('code', { hasText: `TURN_${turn}` }).waitFor();
    times.push(performance.now() - pressed);
  }
  tell(
    'one person sees what another changed, slowest',
    `${Math.round(Math.max(...times))} ms`,
    'at most 1,000 ms',
  );
  await Promise.all([ada.context().close(), grace.context().close()]);
}

interface Lighthouse {
  default: (
    url: string,
    flags: object,
  ) => Promise<{ lhr: { categories: Record<string, { score: number }>; audits: Record<string, Audit> } }>;
}
interface Audit {
  score: number | null;
  title: string;
}

async function scores(folder: string): Promise<void> {
  const module = pathToFileURL(join(folder, 'node_modules', 'lighthouse', 'core', 'index.js')).href;
  const { default: lighthouse } = (await import(module)) as Lighthouse;
  const cookie = state.cookies.map(({ name, value }) => `${name}=${value}`).join('; ');
  const site = `${scene.console}/sites/${scene.parameters['sites']?.['name']}`;
  const pages = [
    ['sign-in', `${scene.console}/sign-in`],
    ['home', scene.console],
    ['site', site],
    ['statistics', `${site}/statistics`],
  ] as const;
  for (const [name, url] of pages) {
    const { lhr } = await lighthouse(url, {
      port: DEBUGGING_PORT,
      logLevel: 'error',
      onlyCategories: ['performance', 'accessibility', 'best-practices'],
      ...(name === 'sign-in' ? {} : { extraHeaders: { Cookie: cookie } }),
    });
    for (const [category, { score }] of Object.entries(lhr.categories)) {
      const bound = category === 'performance' ? 'at least 95' : '100';
      tell(`Lighthouse, ${name}, ${category}`, String(Math.round(score * 100)), bound);
    }
    const lacking = Object.entries(lhr.audits).filter(([, { score }]) => score !== null && score < 0.9);
    for (const [id, { title }] of lacking) console.log(`    ${id}: ${title}`);
  }
}
