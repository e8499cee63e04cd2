// Files and folders that are dropped on the page, by the browser's own drag events.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Page } from 'playwright-core';
import { navigate } from '../chromium.ts';
import { scene } from '../scene.ts';
import { BOTH, leave, visitor, type Journey } from './visitor.ts';

/** A folder with these files; returns its path. */
function folder(name: string, files: Record<string, string>): string {
  const root = join(mkdtempSync(join(tmpdir(), 'drop-')), name);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

/** Drags these over the middle of the page, and lets go. */
async function drop(page: Page, files: string[]): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  const { width = 0, height = 0 } = page.viewportSize() ?? {};
  const data = { items: [], files, dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await devtools.send('Input.dispatchDragEvent', { type, x: width / 2, y: height / 2, data });
  }
  await devtools.detach();
}

const listed = (page: Page) => page.locator('main ul.mono').innerText();

export const dropping: Record<string, Journey> = {
  'a folder is dropped on the new-site page and goes live': async (browser) => {
    for (const width of BOTH) {
      const page = await visitor(browser, scene.login, '/new', { width });
      const name = `tide-pools-${width}`;
      await drop(page, [
        folder(name, {
          'index.html': '<h1>Tide pools</h1>',
          'notes/deep/down.html': 'deep',
          '.well-known/security.txt': 'Contact: x',
          '.env': 'SECRET=1',
          '.DS_Store': 'x',
        }),
      ]);
      await page.getByText(/^3 files/).waitFor();
      await page.getByText(/Left out: \.DS_Store, \.env/).waitFor();
      const shown = await listed(page);
      if (!shown.includes('notes/deep/down.html') || !shown.includes('.well-known/security.txt'))
        throw new Error(`not all files are listed: ${shown}`);
      // The folder has a name, and the site gets it.
      await page.getByText(`It will be at ${name}.`).waitFor();
      await page.getByRole('button', { name: 'Publish', exact: true }).click();
      await page.getByText('It is live').waitFor();
      const site = page.locator('main a.mono').first();
      const visit = await page.context().newPage();
      await visit.goto((await site.getAttribute('href')) ?? '');
      await visit.getByText('Tide pools').waitFor();
      await visit.close();
      await leave(page);
    }
  },

  'what is dropped on home, on a site or among the shares is published from there': async (browser) => {
    const page = await visitor(browser, scene.login, '/');
    await drop(page, [folder('from-home', { 'index.html': 'x' })]);
    await page.waitForURL((url) => url.pathname === '/new');
    await page.getByText(/^1 file/).waitFor();
    await navigate(page, `${scene.console}/sites/recipes`);
    await page.getByRole('heading', { name: 'recipes' }).waitFor();
    await drop(page, [folder('any', { 'index.html': 'x', 'more.html': 'y' })]);
    await page.waitForURL((url) => url.search === '?site=recipes');
    await page.getByText(/^2 files/).waitFor();
    await page.getByText('what it serves now is replaced').waitFor();
    await navigate(page, `${scene.console}/shares`);
    await page.getByRole('heading', { name: 'Shares' }).waitFor();
    await drop(page, [join(folder('one', { 'report.html': '<h1>x</h1>' }), 'report.html')]);
    await page.getByRole('heading', { name: 'Share something' }).waitFor();
    await page.getByText(/^1 file/).waitFor();
    await leave(page);
  },

  'files, archives and odd things are dropped': async (browser) => {
    const page = await visitor(browser, scene.login, '/new');
    const root = folder('odd', { 'a.html': 'a', 'b.css': 'b', 'sub/index.html': 'c' });
    await drop(page, [join(root, 'a.html')]);
    await page.getByText('/ will be a 404, and the page will be at /a.html').waitFor();
    await drop(page, [join(root, 'a.html'), join(root, 'b.css'), join(root, 'sub')]);
    await page.getByText(/^3 files/).waitFor();
    if (!(await listed(page)).includes('sub/index.html'))
      throw new Error('the folder among files is not read');
    execFileSync('python3', ['-m', 'zipfile', '-c', join(root, 'site.zip'), join(root, 'sub/')]);
    await drop(page, [join(root, 'site.zip')]);
    await page.getByText(/^1 file/).waitFor();
    if (!(await listed(page)).includes('site.zip')) throw new Error('the archive is not taken');
    mkdirSync(join(root, 'empty'));
    await drop(page, [join(root, 'empty')]);
    await page.getByText('There is no file in it.').waitFor();
    await leave(page);
  },

  'files that are dropped are read and published in any browser': async (browser) => {
    const page = await visitor(browser, scene.login, '/');
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File(['<h1>x</h1>'], 'index.html'));
      data.items.add(new File(['p {}'], 'style.css'));
      for (const type of ['dragenter', 'dragover', 'drop'])
        document.body.dispatchEvent(
          new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data }),
        );
    });
    await page.getByText(/^2 files/).waitFor();
    await page.getByLabel('Name', { exact: true }).fill('from-any-browser');
    await page.getByRole('button', { name: 'Publish', exact: true }).click();
    await page.getByText('It is live').waitFor();
    await leave(page);
  },

  'no part of the page needs what one browser alone has': async (browser) => {
    const { GLOBALS } = await import('../../build/globals.ts');
    const page = await visitor(browser, scene.login, '/');
    const missing = await page.evaluate((names) => names.filter((name) => !(name in globalThis)), GLOBALS);
    if (missing.length > 0) throw new Error(`Chromium has no ${missing.join(', ')}`);
    await leave(page);
  },
};
