// What people look for, or run into: the guide, what the last owner has to do first, and a first deployment that fails.

import { scene } from '../scene.ts';
import { asks, comes, leave, visitor, type Journey } from './visitor.ts';

export const finding: Record<string, Journey> = {
  'the guide is a link away': async (browser) => {
    const page = await visitor(browser, scene.login, '/docs');
    const guide = page.getByRole('main').getByRole('link', { name: 'guide' });
    const href = (await guide.getAttribute('href')) ?? '';
    // Where it was not built, the address leads to the API's documentation.
    const other = await page.context().newPage();
    const answer = await other.goto(new URL(href, page.url()).href);
    if (answer?.status() !== 200) throw new Error(`${href} answers ${answer?.status()}`);
    await other.close();
    await page.getByRole('button', { name: /^Menu/ }).click();
    await page.getByRole('link', { name: 'Guide', exact: true }).waitFor();
    await leave(page);
  },

  'a log is read to its beginning': async (browser) => {
    const page = await visitor(browser, scene.login, '/orgs/tidal-lab');
    await page.route('**/api/orgs/tidal-lab/audit*', async (route) => {
      const isFirst = !route.request().url().includes('cursor=');
      const entries = Array.from({ length: isFirst ? 100 : 1 }, (_, index) => ({
        id: isFirst ? `aud_${index}` : 'aud_first',
        created_at: new Date(Date.now() - 60_000 * index).toISOString(),
        action: isFirst ? 'project.create' : 'org.create',
        actor: { kind: 'user', name: 'ada' },
        project: isFirst ? `site-${index}` : null,
        detail: {},
      }));
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ entries, next_cursor: isFirst ? 'older' : null });
      await route.fulfill({ status: 200, headers, body });
    });
    await page.getByRole('link', { name: 'Audit log' }).click();
    await page.getByText('at site-49').waitFor();
    const more = page.getByRole('button', { name: 'Show more' });
    await more.click();
    await page.getByText('at site-99').waitFor();
    await more.click();
    await page.getByText('created the organization').waitFor();
    await more.waitFor({ state: 'detached' });
    await leave(page);
  },

  'the only owner is told what comes first': async (browser) => {
    const page = await visitor(browser, scene.login, '/orgs/tidal-lab/members');
    const dialog = page.getByRole('dialog');
    const isTold = async () => {
      await dialog.getByText('You are the only owner of tidal-lab').waitFor();
      await dialog.getByText('make somebody else an owner').waitFor();
      await dialog.getByText('delete it in its settings').waitFor();
    };
    await page.getByLabel(`Role of ${scene.login}`).selectOption('member');
    await isTold();
    await dialog.getByRole('button', { name: 'Cancel', exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
    await comes(
      'the role is shown as it is',
      async () => (await page.getByLabel(`Role of ${scene.login}`).inputValue()) === 'owner',
      page,
    );
    await page.getByRole('main').getByRole('button', { name: 'Leave', exact: true }).click();
    await isTold();
    await dialog.getByRole('button', { name: 'To the settings' }).click();
    await page.waitForURL((url) => url.pathname === '/orgs/tidal-lab/settings');
    await leave(page);
  },

  'a first deployment that fails says what is left behind': async (browser) => {
    const page = await visitor(browser, scene.login, '/new');
    // What is known of the sites stays as it was: a list that is late must not decide whether the site is made.
    await page.route(/\/api\/projects\?/, () => new Promise(() => undefined));
    const upload = '**/api/projects/*/deployments';
    await page.route(upload, async (route) => {
      const error = { code: 'invalid_request', message: 'The archive is damaged.' };
      const headers = { 'content-type': 'application/json' };
      await route.fulfill({ status: 400, headers, body: JSON.stringify({ error }) });
    });
    const files = [{ name: 'index.html', mimeType: 'text/html', buffer: Buffer.from('<h1>x</h1>') }];
    await page.locator('input[type=file][multiple]').first().setInputFiles(files);
    await page.getByText(/^1 file/).waitFor();
    await page.getByLabel('Name', { exact: true }).fill('left-behind');
    await page.getByRole('button', { name: 'Publish', exact: true }).click();
    await page.getByText('The archive is damaged.').waitFor();
    await page.getByText('was made, and nothing is published there yet').waitFor();
    await page.getByRole('button', { name: 'Remove the site' }).click();
    await page.getByText('left-behind is removed.').waitFor();
    if ((await asks(page, '/projects/left-behind')).status !== 404)
      throw new Error('the site is still there');
    // Fails again, and is tried again.
    await page.getByRole('button', { name: 'Publish', exact: true }).click();
    await page.getByText('was made, and nothing is published there yet').waitFor();
    await page.unroute(upload);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('It is live').waitFor();
    await leave(page);
  },
};
