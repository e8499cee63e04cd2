// What can be taken back is done at once; what cannot is asked first, with what is lost.

import type { Page } from 'playwright-core';
import { navigate, PATIENCE_MS } from '../chromium.ts';
import { scene } from '../scene.ts';
import { asks, comes, leave, visitor, type Journey } from './visitor.ts';

/** The question is answered, and nothing stands in the way. */
async function closes(page: Page): Promise<void> {
  const dialog = page.getByRole('dialog');
  await dialog.waitFor({ state: 'hidden', timeout: PATIENCE_MS }).catch(async (cause: unknown) => {
    throw new Error(`the question stays: ${await dialog.innerText()}`, { cause });
  });
}

/** Presses, reads the question, keeps everything; then presses again, and goes through with it. */
async function asked(
  page: Page,
  button: string | RegExp,
  names: string | RegExp,
  action: string,
): Promise<void> {
  // Firefox gives keys to the window in front alone.
  await page.bringToFront();
  const pressed = page.getByRole('main').getByRole('button', { name: button }).first();
  await pressed.click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(names).first().waitFor();
  // Enter alone destroys nothing.
  await page.waitForFunction(() => /^(Cancel|Keep)/.test(document.activeElement?.textContent ?? ''));
  await page.keyboard.press('Enter');
  await closes(page);
  await pressed.click();
  await dialog.getByRole('button', { name: action, exact: true }).click();
  await closes(page);
}

export const undoing: Record<string, Journey> = {
  'what cannot be undone names what is lost': async (browser) => {
    const page = await visitor(browser, scene.login, '/account');
    await asked(page, 'Revoke Build server', 'Programs that use it', 'Revoke');
    await page.getByText('“Build server” is revoked.').waitFor();
    const elsewhere = await visitor(browser, scene.login, '/account', { hasOwnSession: true });
    await page.reload();
    await asked(page, /^Sign out of /, 'has to sign in again', 'Sign out');
    await elsewhere.getByText('You are signed out').waitFor();
    await elsewhere.context().close();

    await navigate(page, `${scene.console}/sites/field-notes/environment`);
    await asked(page, 'Remove FEATURE_TIDES', 'Its value will be gone', 'Remove');
    await comes(
      'FEATURE_TIDES is gone',
      async () => !(await asks(page, '/projects/field-notes/env')).text.includes('FEATURE_TIDES'),
      page,
    );

    await navigate(page, `${scene.console}/orgs/harbour/invites`);
    await asked(
      page,
      'Revoke the invitation of margaret@harbour.example',
      'The link that was sent',
      'Revoke',
    );
    await navigate(page, `${scene.console}/orgs/harbour/members`);
    await asked(page, 'Remove barbara', 'loses access to its 3 sites', 'Remove');
    await page.getByText('barbara was removed.').waitFor();

    await navigate(page, `${scene.console}/shares`);
    await asked(page, /^End /, 'Its address leads nowhere', 'End the share');
    await navigate(page, `${scene.console}/sites/field-notes/deployments`);
    await asked(page, /^Delete /, 'can no longer go back', 'Delete');
    await leave(page);
  },

  'what is published wants its name typed': async (browser) => {
    const page = await visitor(browser, scene.login, '/sites/spring-campaign/settings');
    await page.getByRole('button', { name: 'Delete this site' }).click();
    const dialog = page.getByRole('dialog');
    const action = dialog.getByRole('button', { name: 'Delete', exact: true });
    if (await action.isEnabled()) throw new Error('a site is deleted without its name');
    await dialog.getByLabel('Type spring-campaign to confirm').fill('spring-campaign');
    await action.click();
    await page.getByText('spring-campaign is deleted.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('spring-campaign is back.').waitFor();
    await page.getByRole('link', { name: 'spring-campaign', exact: true }).click();
    await page.getByRole('link', { name: 'Settings', exact: true }).click();
    await page.getByRole('button', { name: 'Delete this site' }).click();
    await dialog.getByLabel('Type spring-campaign to confirm').fill('spring-campaign');
    await action.click();
    await page.getByText('spring-campaign is deleted.').waitFor();
    await page.getByText('Recently deleted').click();
    await page.getByText('gone for good in 7 days').waitFor();
    await page.getByRole('button', { name: 'Restore spring-campaign' }).click();
    await page.getByRole('link', { name: 'spring-campaign', exact: true }).waitFor();
    await leave(page);
  },

  'a rollback is done at once, and can be undone': async (browser) => {
    const page = await visitor(browser, scene.login, '/sites/field-notes/deployments');
    const live = async () =>
      (JSON.parse((await asks(page, '/projects/field-notes')).text) as { active_deployment_id: string })
        .active_deployment_id;
    const before = await live();
    await page
      .getByRole('button', { name: /^Roll back/ })
      .first()
      .click();
    await comes('the site is rolled back', async () => (await live()) !== before, page);
    await page.getByRole('button', { name: 'Undo' }).click();
    await comes('the rollback is undone', async () => (await live()) === before, page);
    await leave(page);
  },

  'a role is given, and given back': async (browser) => {
    const page = await visitor(browser, scene.login, '/orgs/harbour/members');
    const role = page.getByLabel('Role of edsger');
    await role.selectOption('admin');
    await page.getByText('edsger is an admin now.').waitFor();
    await page.keyboard.press('Control+z');
    await page.getByText('edsger is a member now.').waitFor();
    await comes('the role is shown as it is', async () => (await role.inputValue()) === 'member', page);
    await leave(page);
  },

  'what is taken back is never sent, and what is not is sent when the page is left': async (browser) => {
    const page = await visitor(browser, scene.login, '/orgs/harbour/settings');
    const icon = async () =>
      (JSON.parse((await asks(page, '/orgs/harbour')).text) as { icon_url?: string | null }).icon_url;
    await page.evaluate(async () => {
      const canvas = new OffscreenCanvas(64, 64);
      canvas.getContext('2d')?.fillRect(0, 0, 64, 64);
      const body = await canvas.convertToBlob({ type: 'image/png' });
      await fetch('/api/orgs/harbour/icon', { method: 'PUT', body });
    });
    await page.reload();
    const remove = page.getByRole('button', { name: /^Remove/ });
    await remove.click();
    await page.getByText('None was uploaded.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await remove.waitFor();
    if (!(await icon())) throw new Error('what was taken back was done');
    await remove.click();
    await page.getByText('None was uploaded.').waitFor();
    if (!(await icon())) throw new Error('it was done before its time');
    await page.evaluate(() => location.assign('/docs'));
    await page.getByRole('heading', { name: 'API' }).first().waitFor();
    await comes('the icon is removed', async () => !(await icon()), page);
    await page.context().close();
  },
};
