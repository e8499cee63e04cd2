// A person with a browser of their own, who is held to what every page is held to.

import type { Browser, Page } from 'playwright-core';
import { open, PATIENCE_MS, profile, signedIn, type Width } from '../chromium.ts';
import { complaints, watch } from '../complaints.ts';
import { slowDown, watchInteractions } from '../interactions.ts';
import { scene } from '../scene.ts';

export type Journey = (browser: Browser) => Promise<void>;

/** A narrow phone, and a desk. */
export const BOTH: Width[] = [1280, 360];

/** The session of everybody who has signed in. */
const sessions = new Map<string, Awaited<ReturnType<typeof signedIn>>>();

/** Somebody who is signed in and looks at `path`: once for all of their visits, unless this one wants a session of its own. */
export async function visitor(
  browser: Browser,
  login: string,
  path: string,
  options: { width?: Width; locale?: string; hasOwnSession?: boolean } = {},
): Promise<Page> {
  const { hasOwnSession = false, ...rest } = options;
  const known = hasOwnSession ? undefined : sessions.get(login);
  const state = known ?? (await signedIn(browser, login));
  if (!hasOwnSession) sessions.set(login, state);
  const context = await profile(browser, { ...rest, state });
  await watch(context);
  await watchInteractions(context);
  const page = await context.newPage();
  await slowDown(page);
  await open(page, scene.console + path);
  return page;
}

/** Ends the visit; the page must have nothing to complain of. */
export async function leave(page: Page): Promise<void> {
  const said = await complaints(page);
  await page.context().close();
  if (said.length > 0) throw new Error(said.join('\n'));
}

/** What must come true, looked at again and again. */
export async function comes(what: string, holds: () => Promise<boolean>, page: Page): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (Date.now() > end)
      throw new Error(`${what} does not come true:\n${await page.locator('body').innerText()}`);
    await page.waitForTimeout(100);
  }
}

/** The status of a call of the API, made as the person who is signed in. */
export function asks(page: Page, path: string): Promise<{ status: number; text: string }> {
  return page.evaluate(async (path) => {
    const answer = await fetch(`/api${path}`);
    return { status: answer.status, text: await answer.text() };
  }, path);
}
