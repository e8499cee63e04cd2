// An invitation's link, opened by somebody who is new and by somebody who has an account.

import type { Browser, Page } from 'playwright-core';
import { profile } from '../chromium.ts';
import { watch } from '../complaints.ts';
import { scene } from '../scene.ts';
import { asks, leave, visitor, type Journey } from './visitor.ts';

/** The link of an invitation into harbour, as the person who invites reads it. */
async function invitation(browser: Browser, email: string): Promise<string> {
  const page = await visitor(browser, scene.login, '/orgs/harbour/invites');
  await page.getByLabel('Email').fill(email);
  await page.getByRole('button', { name: 'Invite', exact: true }).click();
  const link = page
    .getByRole('dialog')
    .getByText(/https:\/\/.*\/invites\//)
    .first();
  const url = (await link.textContent())?.trim() ?? '';
  await leave(page);
  return url;
}

/** The organization greets who has joined, and is among theirs. */
async function isIn(page: Page): Promise<void> {
  await page.waitForURL((url) => url.pathname === '/orgs/harbour');
  await page
    .getByText(/You are a member of /)
    .first()
    .waitFor();
  const { text } = await asks(page, '/orgs');
  if (!text.includes('"harbour"')) throw new Error(`harbour is not among their organizations: ${text}`);
}

/** The link works once. */
async function isOver(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await page.getByRole('heading', { name: 'This invite is over' }).waitFor();
}

export const joining: Record<string, Journey> = {
  'an invitation leads somebody new through the sign-in into the organization': async (browser) => {
    const link = await invitation(browser, 'dorothy@harbour.example');
    const context = await profile(browser);
    await watch(context);
    const page = await context.newPage();
    await page.goto(link);
    await page.getByRole('heading', { name: 'Join Harbour Works (harbour)' }).waitFor();
    await page.getByRole('link', { name: 'Sign in to join' }).click();
    await page.getByLabel('Login name').fill('dorothy');
    await page.getByLabel("Operator's secret").fill(scene.secret);
    await page.keyboard.press('Enter');
    await page.getByText('You are signed in as dorothy').waitFor();
    await page.getByRole('button', { name: 'Join harbour' }).click();
    await isIn(page);
    await isOver(page, link);
    await leave(page);
  },

  'an invitation takes in who is signed in, and lets them take another account': async (browser) => {
    const link = await invitation(browser, 'hedy@harbour.example');
    const page = await visitor(browser, 'hedy', '/account');
    await page.goto(link);
    await page.getByText('You are signed in as hedy').waitFor();
    await page.getByRole('button', { name: 'Use another account' }).waitFor();
    await page.getByRole('button', { name: 'Join harbour' }).click();
    await isIn(page);
    // Once greeted, they are not greeted again.
    await page.reload();
    await page.getByRole('heading', { name: 'Harbour Works' }).waitFor();
    await isOver(page, link);
    await leave(page);
  },
};
