// What people do in the console, by keyboard alone: each journey is walked with Tab, Enter, Space and arrows.

import { mkdtempSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { profile, settled } from './chromium.ts';
import { watch } from './complaints.ts';
import { scene } from './scene.ts';

/** Nothing on a page is further away than that. */
const MOST_TABS = 120;
/** The person who walks: an account that sees the console for the first time, and who is invited. */
const [WALKER, GUEST] = ['katherine', 'margaret'];
const SITE = 'moon-shot';
const DOMAIN = 'www.moon-shot.localhost';
const PASSWORD = 'free return';

/** A page, and a person who has no mouse. */
export class Walk {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  /** Moves the focus forward until it is there. */
  async to(target: Locator): Promise<void> {
    await target.waitFor();
    for (let tabs = 0; tabs < MOST_TABS; tabs += 1) {
      if (await target.evaluate((element) => element === document.activeElement)) return;
      await this.page.keyboard.press('Tab');
    }
    throw new Error(`the keyboard does not lead to ${target.toString()} at ${this.page.url()}`);
  }

  async press(name: string | RegExp): Promise<void> {
    await this.to(this.page.getByRole('button', { name }).or(this.page.getByRole('link', { name })).first());
    await this.page.keyboard.press('Enter');
  }

  async type(label: string, text: string): Promise<void> {
    await this.to(this.page.getByLabel(label, { exact: true }));
    await this.page.keyboard.type(text);
  }

  async sees(text: string | RegExp): Promise<void> {
    await this.page.getByText(text).first().waitFor();
  }

  async opens(path: string): Promise<void> {
    await this.page.goto(path.startsWith('https:') ? path : scene.console + path);
    await settled(this.page);
  }

  /** The body that a site serves, as its visitors see it. */
  async visits(url: string, text: string): Promise<void> {
    const page = await this.page.context().newPage();
    await page.goto(url);
    await page.getByText(text).first().waitFor();
    await page.close();
  }
}

const siteUrl = () => scene.site.replace('field-notes', SITE);

async function signsIn(walk: Walk, login: string, back: string): Promise<void> {
  await walk.page.goto(`${scene.console}/sign-in?return_to=${encodeURIComponent(back)}`);
  await walk.type('Login name', login);
  await walk.type("Operator's secret", scene.secret);
  await walk.page.keyboard.press('Enter');
  await walk.page.waitForURL(scene.console + back);
}

async function chooses(walk: Walk, text: string): Promise<void> {
  const folder = join(mkdtempSync(join(tmpdir(), 'journey-')), 'public');
  mkdirSync(join(folder, 'notes'), { recursive: true });
  writeFileSync(join(folder, 'index.html'), `<h1>${text}</h1>`);
  writeFileSync(join(folder, 'notes', 'index.html'), '<h1>Notes</h1>');
  const [chooser] = await Promise.all([walk.page.waitForEvent('filechooser'), walk.press('Choose a folder')]);
  await chooser.setFiles(folder);
  await walk.sees(/^2 files/);
}

type Journey = (walk: Walk, browser: Browser) => Promise<void>;

/** In this order: each goes on where the one before it has ended. */
export const journeys: Record<string, Journey> = {
  'sign in': (walk) => signsIn(walk, WALKER, '/new'),

  'publish a folder, and see it live': async (walk) => {
    await chooses(walk, 'First stage');
    await walk.type('Name', SITE);
    await walk.page.keyboard.press('Enter');
    await walk.sees('It is live');
    await walk.visits(siteUrl(), 'First stage');
  },

  'publish again, and roll back': async (walk) => {
    await walk.opens(`/new?site=${SITE}`);
    await chooses(walk, 'Second stage');
    await walk.press('Publish again');
    await walk.sees('It is live');
    await walk.visits(siteUrl(), 'Second stage');
    await walk.opens(`/sites/${SITE}/deployments`);
    await walk.press(/^Roll back/);
    await walk.sees(/is live/);
    await walk.page.waitForFunction(() => !document.querySelector('[aria-busy="true"]'));
    await waitUntilServed(walk, 'First stage');
  },

  'add a domain until its certificate stands': async (walk) => {
    await walk.opens(`/sites/${SITE}/domains`);
    await walk.type('Hostname', DOMAIN);
    await walk.page.keyboard.press('Enter');
    await walk.sees(`${DOMAIN} has a certificate`);
  },

  'protect a site by a password, and pass its gate': async (walk, browser) => {
    await walk.opens(`/sites/${SITE}/access`);
    await walk.to(walk.page.getByRole('radio', { name: 'Everybody' }));
    await walk.page.keyboard.press('ArrowDown');
    await walk.type('Password', PASSWORD);
    await walk.page.keyboard.press('Enter');
    await walk.sees('in force on every edge');
    const visitor = new Walk(await (await profile(browser)).newPage());
    await visitor.page.goto(siteUrl());
    await visitor.type('Password', PASSWORD);
    await visitor.page.keyboard.press('Enter');
    await visitor.sees('First stage');
    await visitor.page.context().close();
  },

  'invite somebody, who accepts': async (walk, browser) => {
    await walk.page.evaluate(async () => {
      const headers = { 'content-type': 'application/json' };
      await fetch('/api/orgs', { method: 'POST', headers, body: JSON.stringify({ name: 'apollo' }) });
    });
    await walk.opens('/orgs/apollo/invites');
    await walk.type('Email', 'margaret@apollo.example');
    await walk.page.keyboard.press('Enter');
    const link = await walk.page
      .getByText(/https:\/\/.*\/invites\//)
      .first()
      .textContent();
    await walk.press('Done');
    const context = await profile(browser);
    await watch(context);
    const guest = new Walk(await context.newPage());
    await guest.page.goto(link?.trim() ?? '');
    await guest.press('Sign in to join');
    await guest.type('Login name', GUEST);
    await guest.type("Operator's secret", scene.secret);
    await guest.page.keyboard.press('Enter');
    await guest.press('Join apollo');
    await guest.page.waitForURL(`${scene.console}/orgs/apollo*`);
    await guest.sees('You are a member of apollo now');
    await context.close();
  },

  'turn letters off': async (walk) => {
    await walk.opens('/account');
    const box = walk.page.getByRole('checkbox', { name: 'Letters about domains in trouble' });
    await walk.to(box);
    await walk.page.keyboard.press('Space');
    await walk.page.waitForFunction(async () => {
      const { kinds } = await (await fetch('/api/notifications')).json();
      return kinds.some(
        ({ kind, enabled }: { kind: string; enabled: boolean }) => kind === 'domain_trouble' && !enabled,
      );
    });
    await walk.opens('/account');
    if (await box.isChecked()) throw new Error('the letters are on again');
  },

  'find what happened to the account': async (walk) => {
    await walk.opens('/account');
    await walk.press('Activity');
    await walk.page.waitForURL(`${scene.console}/account/activity`);
    await walk.sees(/signed in with/);
    await walk.sees('created the organization');
    await walk.sees('in apollo');
  },

  'make a key, and chat': async (walk) => {
    await walk.opens('/ai');
    await walk.type('Label', 'Notebook');
    await walk.page.keyboard.press('Enter');
    const key = await walk.page.getByRole('dialog').locator('code').first().textContent();
    await walk.press('I have kept it');
    // As a program does: the gateway's host has no pages.
    const page = await walk.page.context().newPage();
    await page.goto(`${scene.ai}/v1/models`);
    const said = await page.evaluate(async (key) => {
      const body = JSON.stringify({
        model: 'svc/mistral-small',
        messages: [{ role: 'user', content: 'Hello' }],
      });
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
      return (await fetch('/v1/chat/completions', { method: 'POST', headers, body })).status;
    }, key);
    await page.close();
    if (said !== 200) throw new Error(`the gateway answered ${said}`);
  },

  'pay with play money, and cancel': async (walk) => {
    await walk.opens('/billing');
    await walk.type('Name', 'Katherine Johnson');
    await walk.type('Country', 'Netherlands');
    await walk.press('Save');
    await walk.sees('Saved');
    await walk.opens('/billing');
    await walk.press('Choose Pro');
    await walk.sees('NO MONEY MOVES HERE');
    await walk.press(/^Pay .* of play money$/);
    await walk.sees('it is paid, and Pro applies');
    await walk.press('Cancel the plan');
    await walk.page.keyboard.press('Shift+Tab');
    await walk.page.keyboard.press('Enter');
    await walk.press('Resume the plan');
    await walk.page.keyboard.press('Shift+Tab');
    await walk.page.keyboard.press('Enter');
    await walk.sees('Cancel the plan');
  },
};

async function waitUntilServed(walk: Walk, text: string): Promise<void> {
  const page = await walk.page.context().newPage();
  await page.goto(siteUrl());
  while (!(await page.content()).includes(text)) await page.reload();
  await page.close();
}
