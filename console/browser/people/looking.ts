// What people ask of statistics: other days, and one page, site or country alone.

import type { Page } from 'playwright-core';
import { navigate } from '../chromium.ts';
import { scene } from '../scene.ts';
import { comes, leave, visitor, type Journey } from './visitor.ts';

const SITE = '/sites/field-notes/statistics';

const parameters = (page: Page) => Object.fromEntries(new URL(page.url()).searchParams);

async function isAt(page: Page, wanted: Record<string, string>): Promise<void> {
  const written = JSON.stringify(wanted);
  await comes(`the address has ${written}`, async () => JSON.stringify(parameters(page)) === written, page);
}

export const looking: Record<string, Journey> = {
  'a row is shown alone, at an address of its own, and comes off again': async (browser) => {
    const page = await visitor(browser, scene.login, `${SITE}?range=30d`);
    const row = page.getByRole('link', { name: '/notes/tides/', exact: true });
    await row.waitFor();
    const asked: string[] = [];
    page.on('request', (request) => {
      const { pathname } = new URL(request.url());
      if (/^\/api\/projects\/[^/]+\/stats\//.test(pathname)) asked.push(pathname);
    });
    await row.focus();
    await page.keyboard.press('Enter');
    await isAt(page, { range: '30d', page: '/notes/tides/' });
    await page.getByRole('heading', { name: 'Views by people' }).waitFor();
    await page.getByRole('figure', { name: 'Views by day' }).waitFor();
    const chip = page.getByRole('link', { name: 'Remove the filter Page: /notes/tides/' });
    await chip.waitFor();
    // Only this page is left, and it says that it is chosen and keeps the focus.
    const other = page.getByRole('link', { name: '/notes/lighthouses/', exact: true });
    await comes('other pages are gone', async () => (await other.count()) === 0, page);
    await comes(
      'the row keeps the focus',
      () => row.evaluate((link) => link === document.activeElement && link.ariaCurrent === 'true'),
      page,
    );
    if (asked.length !== 1) throw new Error(`one row took ${asked.length} requests: ${asked.join(', ')}`);
    await page
      .getByRole('link', { name: 'Germany', exact: true })
      .or(page.getByRole('link', { name: 'United Kingdom' }))
      .first()
      .click();
    await comes('two filters are on', async () => 'country' in parameters(page), page);
    await page.reload();
    await chip.waitFor();
    await page.getByRole('link', { name: /^Remove the filter Country/ }).click();
    await isAt(page, { range: '30d', page: '/notes/tides/' });
    await chip.focus();
    await page.keyboard.press('Enter');
    await isAt(page, { range: '30d' });
    await other.waitFor();
    await leave(page);
  },

  'days are chosen by date': async (browser) => {
    const page = await visitor(browser, scene.login, SITE);
    const day = (back: number) => new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 10);
    const [from, to] = [day(45), day(20)];
    await page.getByLabel('From', { exact: true }).fill(from);
    await page.getByLabel('to', { exact: true }).fill(to);
    await page.getByRole('button', { name: 'Show these days' }).click();
    await isAt(page, { from, to });
    await page.getByRole('figure', { name: 'Requests by day' }).waitFor();
    await page
      .getByText(/; [\d,]+ in the 26 days before \([+−±]\d+%\)/)
      .first()
      .waitFor();
    // A day that is not kept is none that can be chosen.
    await page.getByLabel('From', { exact: true }).fill('2020-01-01');
    await page.getByRole('button', { name: 'Show these days' }).click();
    await isAt(page, { from, to });
    // In an address it is refused in words.
    await navigate(page, `${scene.console}${SITE}?from=2020-01-01&to=2020-01-31`);
    await page.getByText('days are kept for 400 days').first().waitFor();
    await page.getByRole('button', { name: '30 d', exact: true }).click();
    await isAt(page, { range: '30d' });
    await page.getByRole('figure', { name: 'Requests by day' }).waitFor();
    await page.context().close();
  },
};
