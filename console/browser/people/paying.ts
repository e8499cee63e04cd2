// From the plan to the details, to the provider, and back to the bill with what became of it.

import { navigate } from '../chromium.ts';
import { scene } from '../scene.ts';
import { leave, visitor, type Journey } from './visitor.ts';

export const paying: Record<string, Journey> = {
  'a plan is chosen without details, failed, called off, left open and paid': async (browser) => {
    const page = await visitor(browser, 'hedy', '/billing');
    await page.getByRole('button', { name: 'Choose Pro' }).click();
    await page.getByText('One step before Pro').waitFor();
    await page.getByLabel('Name', { exact: true }).fill('Hedy Lamarr');
    await page.getByLabel('Country').selectOption('NL');
    await page.getByRole('button', { name: 'Save and go on to the payment' }).click();
    await page.getByText('NO MONEY MOVES HERE').waitFor();

    await navigate(page, `${scene.console}/billing`);
    await page.getByText('Not paid yet').waitFor();
    await page.getByRole('button', { name: 'Go on to pay' }).click();
    await page.getByRole('button', { name: 'Let it fail' }).click();
    await page.waitForURL((url) => url.pathname === '/billing');
    await page.getByText('Pro was not paid.').waitFor();

    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('button', { name: /cancel|call it off/i }).click();
    await page.waitForURL((url) => url.pathname === '/billing');
    await page.getByText('Pro was not paid.').waitFor();

    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('button', { name: /^Pay .* of play money$/ }).click();
    await page.waitForURL((url) => url.pathname === '/billing' && url.search === '?checkout=pro');
    await page.getByText('Thank you: it is paid, and Pro applies.').waitFor();

    // What a change costs is said to the cent, and nothing happens before.
    await page.getByRole('button', { name: 'Change to Business' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('€121.00').waitFor();
    await dialog.getByText('€0.00').waitFor();
    await dialog.getByRole('button', { name: 'Cancel', exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByText('Your plan').waitFor();
    await page.getByRole('button', { name: 'Change to Business' }).waitFor();
    await page.getByRole('button', { name: 'Cancel the plan' }).click();
    await dialog.getByText('Nothing is deleted').waitFor();
    await dialog.getByRole('button', { name: 'Cancel the plan' }).click();
    await page.getByText('Ends with this month').waitFor();
    for (const limit of ['Storage', 'Shares', 'Deployments kept of each site', 'Tokens of one AI answer'])
      await page.getByText(limit).first().waitFor();
    await leave(page);
  },

  "an organization's owner comes back to its bill": async (browser) => {
    const page = await visitor(browser, scene.login, '/orgs/harbour/billing');
    await page.getByRole('button', { name: 'Choose Pro' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Harbour Works B.V.');
    await page.getByLabel('Country').selectOption('NL');
    await page.getByRole('button', { name: 'Save and go on to the payment' }).click();
    await page.getByRole('button', { name: /^Pay .* of play money$/ }).click();
    await page.waitForURL((url) => url.pathname === '/orgs/harbour/billing');
    await page.getByText('Thank you: it is paid, and Pro applies.').waitFor();
    await leave(page);
  },
};
