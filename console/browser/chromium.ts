// One Chromium, and what a page of it is when it is ready to be looked at.

import { chromium, type Browser, type BrowserContext, type Page, type Request } from 'playwright-core';
import { scene } from './scene.ts';

export const THEMES = ['light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];
export const WIDTHS = [1280, 320] as const;
export type Width = (typeof WIDTHS)[number] | 360;

/** Bounds a hang; asserts no speed. */
export const PATIENCE_MS = 30_000;
/** How often a page that loads is looked at. */
const LOOK_EVERY_MS = 50;

/** Whether the journeys are walked in Firefox. */
export const isFirefox = process.env['SVC_BROWSER'] === 'firefox';

/** Debian's Chromium, for which every name is this machine. */
export function launch(more: string[] = []): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env['CHROME_PATH'] ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-dev-shm-usage',
      '--disable-gpu',
      '--host-resolver-rules=MAP * 127.0.0.1',
      // Answers under a certificate that is only tolerated would not be cached.
      `--ignore-certificate-errors-spki-list=${scene.keys}`,
      ...more,
    ],
  });
}

/** The requests of each page that have no answer yet, and who waits for the last of them. */
class Pending {
  readonly requests = new Set<Request>();
  private waiting: (() => void)[] = [];

  ended(request: Request): void {
    this.requests.delete(request);
    if (this.requests.size > 0) return;
    for (const resume of this.waiting.splice(0)) resume();
  }

  /** Resolves when every request has its answer. */
  async none(): Promise<void> {
    if (this.requests.size === 0) return;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`no answer from ${[...this.requests].map((request) => request.url()).join(', ')}`));
      }, PATIENCE_MS);
      this.waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

const pending = new WeakMap<Page, Pending>();

type State = Awaited<ReturnType<BrowserContext['storageState']>>;

/** A profile of its own, with the cookies of one that was signed in before. */
export async function profile(
  browser: Browser,
  options: { theme?: Theme; width?: Width; state?: State; locale?: string } = {},
): Promise<BrowserContext> {
  const { theme = 'light', width = 1280, state, locale = 'en-GB' } = options;
  const context = await browser.newContext({
    colorScheme: theme,
    reducedMotion: 'reduce',
    viewport: { width, height: width < 500 ? 640 : 860 },
    locale,
    timezoneId: 'Europe/Amsterdam',
    // Chromium is told which keys to trust.
    ignoreHTTPSErrors: isFirefox,
    ...(state ? { storageState: state } : {}),
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const under = (request: Request) => {
    // Of a page that is gone there is nothing to wait for.
    const page = request.frame().page();
    const known = pending.get(page) ?? new Pending();
    pending.set(page, known);
    return known;
  };
  context.on('request', (request) => {
    // Of the document before, nothing is waited for.
    if (request.isNavigationRequest() && !request.frame().parentFrame()) under(request).requests.clear();
    // The stream of events has no end.
    if (!request.url().endsWith('/api/events')) under(request).requests.add(request);
  });
  for (const end of ['requestfinished', 'requestfailed'] as const) {
    context.on(end as 'requestfinished', (request) => under(request).ended(request));
  }
  return context;
}

/** Signs in on the page for it, with the keyboard. */
export async function signIn(page: Page, login = scene.login, back = '/'): Promise<void> {
  await navigate(page, `${scene.console}/sign-in?return_to=${encodeURIComponent(back)}`);
  await page.getByLabel('Login name').fill(login);
  await page.getByLabel('Operator').fill(scene.secret);
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
}

/** The cookies of somebody who is signed in. */
export async function signedIn(browser: Browser, login = scene.login): Promise<State> {
  const context = await profile(browser);
  await signIn(await context.newPage(), login);
  const state = await context.storageState();
  await context.close();
  return state;
}

/** How often Firefox is asked for a page whose load it breaks off. */
const ATTEMPTS = 3;

/** Goes to an address. Firefox on a busy machine now and then calls a navigation aborted that nothing has aborted: it is made again. */
export async function navigate(page: Page, url: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await page.goto(url);
      return;
    } catch (error) {
      const isAborted = /NS_BINDING_ABORTED|interrupted by another navigation/.test(String(error));
      if (!isFirefox || !isAborted || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Opens a page, and waits until everything that it asked for is here, and drawn. */
export async function open(page: Page, url: string): Promise<void> {
  await navigate(page, url);
  await settled(page).catch(async (error: unknown) => {
    throw new Error(`${page.url()} does not settle:\n${await page.locator('body').innerText()}`, {
      cause: error,
    });
  });
}

/** The parts that the page says could not be loaded; the page of the parts says so of nothing. */
export function failures(page: Page): Promise<string[]> {
  if (page.url().endsWith('/dev/ui')) return Promise.resolve([]);
  return page.locator('main .failure[role="alert"]').allInnerTexts();
}

/** Waits until everything that the page asked for is here, and drawn. */
export async function settled(page: Page): Promise<void> {
  // Looked at now and then: a look in each frame would have the browser draw frames, without a GPU, for as long as it waits.
  await page.waitForFunction(
    () => {
      const isLoading = document.querySelector(
        ':not(.waiting) > [aria-label="Loading"], figure .canvas:empty, [aria-busy="true"]',
      );
      return document.querySelector('main') && !isLoading;
    },
    undefined,
    { polling: LOOK_EVERY_MS },
  );
  // Twice in a row: what came may ask for more, as a list's rows do.
  for (let quiet = 0; quiet < 2;) {
    await pending.get(page)?.none();
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
    quiet = pending.get(page)?.requests.size ? 0 : quiet + 1;
  }
}
