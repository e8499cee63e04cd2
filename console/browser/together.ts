// Two people on one page, a page whose network goes and comes back, and a session that ends in the middle of a form.

import type { Browser, Page } from 'playwright-core';
import { launch, open, profile, signIn } from './chromium.ts';
import { complaints, watch } from './complaints.ts';
import { scene } from './scene.ts';

const PAGE = `${scene.console}/sites/handbook/environment`;
/** Sooner than a page that hears of nothing asks again. */
const HEARD_MS = 8_000;

const browser = await launch();
const [ada, grace] = [await person(browser, 'ada'), await person(browser, 'grace')];

await set(ada, 'FROM_ADA=1');
await shows(grace, 'FROM_ADA');
await set(grace, 'FROM_GRACE=1');
await shows(ada, 'FROM_GRACE');
console.log('both see what the other changes');

await grace.context().setOffline(true);
await grace.getByText('You are offline').waitFor();
await set(ada, 'MEANWHILE=1');
await shows(grace, 'FROM_ADA');
await grace.context().setOffline(false);
await shows(grace, 'MEANWHILE');
await grace.getByText('You are offline').waitFor({ state: 'hidden' });
console.log('what was missed without network is shown');

await ada.getByRole('textbox').fill('TYPED=kept');
await signOutEverywhere(browser);
const signedOut = ada.getByRole('heading', { name: 'You are signed out' });
await signedOut.waitFor();
const elsewhere = await ada.context().newPage();
await signIn(elsewhere, 'ada', '/account');
await elsewhere.close();
await signedOut.waitFor({ state: 'hidden' });
await ada.getByRole('button', { name: 'Set 1 variable' }).click();
await shows(ada, 'TYPED');
await shows(grace, 'TYPED');
console.log('what was typed when the session ended is saved by the next');

const said = [...(await complaints(ada)), ...(await complaints(grace))];
if (said.length > 0) throw new Error(said.join('\n'));
await browser.close();

/** Somebody who looks at the page. */
async function person(browser: Browser, login: string): Promise<Page> {
  const context = await profile(browser);
  await watch(context);
  const page = await context.newPage();
  await signIn(page, login);
  await open(page, PAGE);
  return page;
}

async function set(page: Page, line: string): Promise<void> {
  await page.getByRole('textbox').fill(line);
  await page.getByRole('button', { name: 'Set 1 variable' }).click();
  await page.getByText('1 variable set.').first().waitFor();
}

async function shows(page: Page, key: string): Promise<void> {
  await page.locator('code', { hasText: key }).waitFor({ timeout: HEARD_MS });
}

/** Ends every session of Ada's, from a browser of hers where the page is not open. */
async function signOutEverywhere(browser: Browser): Promise<void> {
  const context = await profile(browser);
  const page = await context.newPage();
  await signIn(page, 'ada', '/account');
  const status = await page.evaluate(async () => (await fetch('/api/sessions', { method: 'DELETE' })).status);
  if (status !== 200) throw new Error(`sessions do not end: ${status}`);
  await context.close();
}
