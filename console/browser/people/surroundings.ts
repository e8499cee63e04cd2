// A slow line, a server that goes and comes back, and browsers that speak other languages.

import type { Page } from 'playwright-core';
import { navigate, open, profile, signedIn } from '../chromium.ts';
import { scene } from '../scene.ts';
import { comes, leave, visitor, type Journey } from './visitor.ts';

/** All scripts but the one that sets the theme, for which the first paint waits. */
const OWN_SCRIPTS = /\.js$(?<!\/theme\.[\w-]+\.js)/;

/** What a browser would write in the language of its own: numerals, commas for points, words for times, months and countries. */
const FOREIGN =
  /[٠-٩\u0600-\u06ff]|(?<!€)\b\d{1,3}\.\d{3}\b(?!\.)|\d,\d{1,2}\b|\d\s€|\b(vor|in) \d+ (Sekund|Minut|Stund|Tag|Monat)|\b(gestern|heute|Jan\.|Mär|Mai|Okt|Dez|Deutschland|Niederlande)\b/;

/** What is read, titles and names for screen readers included; what a chart draws is drawn by the same functions as its table. */
async function isEnglish(page: Page, locale: string): Promise<void> {
  const read = await page.locator('main').evaluate((main: HTMLElement) => {
    for (const details of main.querySelectorAll('details')) details.open = true;
    const said = [...main.querySelectorAll('[title], [aria-label]')].map(
      (one) => `${one.getAttribute('title') ?? ''} ${one.getAttribute('aria-label') ?? ''}`,
    );
    return [main.innerText, ...said].join('\n');
  });
  const [found] = FOREIGN.exec(read) ?? [];
  if (found) throw new Error(`${locale}, ${page.url()}, “${found}”:\n${read}`);
}

/** The colour behind the page: how light it is, of 255. */
function lightness(page: Page): Promise<number> {
  return page.evaluate(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d');
    if (!canvas) return -1;
    canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data[0] ?? -1;
  });
}

async function isDrawn(page: Page, theme: 'light' | 'dark'): Promise<void> {
  await comes(
    `the page is ${theme}`,
    async () => (theme === 'dark' ? (await lightness(page)) < 60 : (await lightness(page)) > 200),
    page,
  );
}

export const surroundings: Record<string, Journey> = {
  'German and Arabic browsers read English numbers in English sentences': async (browser) => {
    for (const locale of ['de-DE', 'ar-EG']) {
      const page = await visitor(browser, scene.login, '/billing', { locale });
      await page.getByText('€24.20').first().waitFor();
      await page
        .getByText(/in \d+ days|next month/)
        .first()
        .waitFor();
      await navigate(page, `${scene.console}/sites/field-notes/deployments`);
      await page
        .getByText(/\d+ (minutes|hours|days) ago|just now|yesterday|now/)
        .first()
        .waitFor();
      await isEnglish(page, locale);
      for (const path of [
        '/billing',
        '/ai',
        '/shares',
        '/account',
        '/sites/field-notes/statistics',
        '/sites/field-notes/domains',
        `/sites/field-notes/deployments/${scene.parameters['sites']?.['id']}`,
        '/orgs/harbour/usage',
        '/orgs/harbour/billing',
        '/orgs/harbour/audit',
      ]) {
        await open(page, scene.console + path);
        await isEnglish(page, locale);
      }
      await leave(page);
    }
  },

  'a theme is chosen, holds before the first paint, and is given back to the system': async (browser) => {
    const page = await visitor(browser, scene.login, '/');
    await isDrawn(page, 'light');
    await page.getByRole('button', { name: /^Menu/ }).click();
    await page.getByRole('radio', { name: 'dark' }).check();
    await isDrawn(page, 'dark');
    const other = await page.context().newPage();
    await open(other, `${scene.console}/account`);
    await isDrawn(other, 'dark');
    if (!(await other.getByRole('main').getByRole('radio', { name: 'dark' }).isChecked()))
      throw new Error('the account page does not say what was chosen');

    // The page as it is first drawn, without its own scripts.
    let letGo = () => {};
    const held = new Promise<void>((resolve) => (letGo = resolve));
    await page.route(OWN_SCRIPTS, async (route) => {
      await held;
      await route.continue().catch(() => undefined);
    });
    await page.reload({ waitUntil: 'commit' });
    await page.locator('.shell').waitFor();
    if ((await lightness(page)) > 60) throw new Error('the first paint is of the theme of the system');
    letGo();
    await page.getByRole('link', { name: 'field-notes', exact: true }).waitFor();
    await page.unroute(OWN_SCRIPTS);

    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'A site, an organization' }).fill('theme system');
    await page.keyboard.press('Enter');
    await isDrawn(page, 'light');
    // The other tab follows, and both follow the system.
    await isDrawn(other, 'light');
    await page.emulateMedia({ colorScheme: 'dark' });
    await isDrawn(page, 'dark');
    await other.getByRole('main').getByRole('radio', { name: 'light' }).check();
    await isDrawn(page, 'light');
    await page.emulateMedia({ colorScheme: 'light' });
    await leave(page);
  },

  'a slow line shows the frame before the rest': async (browser) => {
    const context = await profile(browser, { state: await signedIn(browser) });
    const page = await context.newPage();
    const devtools = await context.newCDPSession(page);
    await devtools.send('Network.enable');
    const line = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 };
    await devtools.send('Network.emulateNetworkConditions', line);
    // Scripts take their time: the frame stands without them. That of the theme comes with the styles.
    let letGo = () => {};
    const held = new Promise<void>((resolve) => (letGo = resolve));
    await page.route(OWN_SCRIPTS, async (route) => {
      await held;
      await route.continue().catch(() => undefined);
    });
    await page.goto(scene.console, { waitUntil: 'commit' });
    await page.locator('.shell').waitFor();
    letGo();
    await page.getByRole('link', { name: 'field-notes', exact: true }).waitFor();
    await comes('the first frame is gone', async () => (await page.locator('.shell').count()) === 0, page);
    await context.close();
  },

  'a server that is gone is said, and the page goes on when it is back': async (browser) => {
    const page = await visitor(browser, scene.login, '/sites/field-notes/environment');
    await page.getByRole('textbox').fill('TYPED=kept');
    const gone = (url: URL) => url.origin === scene.console;
    await page.route(gone, (route) => route.abort('connectionrefused'));
    // A page whose script is not here yet.
    await page.getByRole('link', { name: 'Statistics', exact: true }).click();
    await page.getByText('The server cannot be reached').first().waitFor();
    if (!page.url().startsWith(scene.console)) throw new Error(`the page was left for ${page.url()}`);
    if ((await page.getByRole('textbox').inputValue()) !== 'TYPED=kept')
      throw new Error('what was typed is gone');
    await page.unroute(gone);
    await page.getByRole('link', { name: 'Statistics', exact: true }).click();
    const heading = page.getByRole('heading', { name: 'People and bots' });
    await comes('the page goes on', () => heading.isVisible(), page);
    await page.context().close();
  },
};
