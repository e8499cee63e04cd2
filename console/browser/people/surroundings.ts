// A slow line, a server that goes and comes back, and browsers that speak other languages.

import { profile, signedIn } from '../chromium.ts';
import { scene } from '../scene.ts';
import { comes, leave, visitor, type Journey } from './visitor.ts';

export const surroundings: Record<string, Journey> = {
  'German and Arabic browsers read English numbers in English sentences': async (browser) => {
    for (const locale of ['de-DE', 'ar-EG']) {
      const page = await visitor(browser, scene.login, '/billing', { locale });
      await page.getByText('€24.20').first().waitFor();
      await page
        .getByText(/in \d+ days|next month/)
        .first()
        .waitFor();
      await page.goto(`${scene.console}/sites/field-notes/deployments`);
      await page
        .getByText(/\d+ (minutes|hours|days) ago|just now|yesterday|now/)
        .first()
        .waitFor();
      const text = await page.locator('main').innerText();
      if (/vor \d|Minuten|[٠-٩]/.test(text)) throw new Error(`${locale}: ${text}`);
      await leave(page);
    }
  },

  'a slow line shows the frame before the rest': async (browser) => {
    const context = await profile(browser, { state: await signedIn(browser) });
    const page = await context.newPage();
    const devtools = await context.newCDPSession(page);
    await devtools.send('Network.enable');
    const line = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 };
    await devtools.send('Network.emulateNetworkConditions', line);
    // Scripts take their time: the frame stands without them.
    let letGo = () => {};
    const held = new Promise<void>((resolve) => (letGo = resolve));
    await page.route('**/*.js', async (route) => {
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
