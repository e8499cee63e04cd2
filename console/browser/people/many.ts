// An account of 2,500 sites, and a server that has had enough.

import type { Page } from 'playwright-core';
import { scene } from '../scene.ts';
import { leave, visitor, type Journey } from './visitor.ts';

/** Minutes of clicks: five, of an hour's work, when somebody has the time. */
const ROUNDS = Number(process.env['SVC_TEST_CLICKS'] ?? '6');

/** Nothing that a person reads tells of the protocol, and nothing is said to have failed. */
async function isCalm(page: Page): Promise<void> {
  const text = await page.locator('body').innerText();
  const wrong = /Retry-After|Too many requests|could not be|\b(error|status) (429|503)\b/.exec(text);
  if (wrong) throw new Error(`${page.url()} says “${wrong[0]}”:\n${text.slice(0, 2_000)}`);
}

export const many: Record<string, Journey> = {
  'an account of 2,500 sites is never refused, and its list asks for no row': async (browser) => {
    const page = await visitor(browser, 'grace', '/');
    const refused: string[] = [];
    const lists: string[] = [];
    const rows: string[] = [];
    let asked = 0;
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url());
      if (pathname === '/api/projects') lists.push(search);
      else if (pathname.startsWith('/api/projects/')) rows.push(pathname);
    });
    page.on('response', (response) => {
      // Icons belong to the sites, and these have none.
      if (response.url().endsWith('/icon')) return;
      asked += 1;
      if (response.status() === 429 || response.status() === 503)
        refused.push(`${response.status()} ${response.url()}`);
    });
    await page.reload();
    await page.getByRole('button', { name: 'Show more sites' }).waitFor();
    if (lists.length !== 1)
      throw new Error(`a page of the list took ${lists.length} requests: ${lists.join(', ')}`);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (let turn = 0; turn < 12; turn += 1) {
        await page.mouse.wheel(0, 1_500);
        await page.waitForTimeout(120);
      }
      if (round === 0 && rows.length > 0) throw new Error(`rows ask by themselves: ${rows.join(', ')}`);
      await page.getByLabel('Filter by name').fill(`site-${round + 1}`);
      await isCalm(page);
      await page.getByRole('main').locator('a[href^="/sites/site-"]').first().click();
      await page.getByRole('heading', { name: /^site-/ }).waitFor();
      for (const tab of ['Deployments', 'Statistics', 'Domains', 'Environment', 'Settings']) {
        await page.getByRole('link', { name: tab, exact: true }).click();
        await page.waitForURL(new RegExp(`/${tab.toLowerCase()}$`));
      }
      await isCalm(page);
      await page.getByRole('link', { name: 'Sites', exact: true }).click();
      await page.getByLabel('Filter by name').waitFor();
    }
    await isCalm(page);
    if (refused.length > 0)
      throw new Error(`${refused.length} of ${asked} were refused: ${refused.slice(0, 5).join(', ')}`);
    console.log(`  ${asked} answers, none refused`);
    await leave(page);
  },

  'a refusal is waited out, and what is known is shown meanwhile': async (browser) => {
    const page = await visitor(browser, scene.login, '/');
    let refusals = 0;
    await page.route('**/api/**', async (route) => {
      if (route.request().url().endsWith('/api/events') || refusals >= 3) return route.continue();
      refusals += 1;
      const headers = {
        'Retry-After': '2',
        'X-RateLimit-Remaining': '0',
        'content-type': 'application/json',
      };
      const error = {
        code: 'rate_limit_exceeded',
        message: 'Too many requests; wait as long as Retry-After says, then go on.',
      };
      await route.fulfill({ status: 429, headers, body: JSON.stringify({ error }) });
    });
    await page.getByRole('link', { name: 'portfolio', exact: true }).click();
    await page.getByRole('heading', { name: 'portfolio' }).waitFor();
    await isCalm(page);
    await page.getByText('The server is busy: this goes on by itself').waitFor();
    await page.getByText('Live now').waitFor();
    await isCalm(page);
    await page.reload();
    await page.getByText('Live now').waitFor();
    await leave(page);
  },
};
