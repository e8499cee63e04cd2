// Photographs every page, light and dark, wide and narrow, into the folder that SVC_SHOTS names.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  failures,
  launch,
  open,
  profile,
  settled,
  signedIn,
  THEMES,
  WIDTHS,
  type Theme,
} from './chromium.ts';
import { consolePages, serverPages } from './routes.ts';

/** Pages that are opened at a time. */
const TABS = process.env['SVC_SHOTS_README'] ? 1 : 4;
/** Those of the README: which page, under which name, in which theme. */
const README: Record<string, [picture: string, theme: Theme]> = {
  home: ['home', 'light'],
  'sites.name': ['site', 'dark'],
  'sites.name.statistics': ['statistics', 'light'],
};
/** Pixels of a page that are photographed, at most. */
const HIGHEST = 6_000;
const CLIP = { x: 0, y: 0, width: 1280, height: 660 };

const folder = process.env['SVC_SHOTS'] ?? 'shots';
const pictures = process.env['SVC_SHOTS_README'];
const only = process.env['SVC_SHOTS_ONLY'];
const pages = [...consolePages(), ...serverPages()].filter(
  ({ name }) => !only || new RegExp(only).test(name),
);

if (pictures) mkdirSync(pictures, { recursive: true });
const browser = await launch();
const state = await signedIn(browser);
for (const width of WIDTHS) {
  for (const theme of THEMES) {
    const here = join(folder, `${width}-${theme}`);
    mkdirSync(here, { recursive: true });
    const [member, stranger] = [
      await profile(browser, { theme, width, state }),
      await profile(browser, { theme, width }),
    ];
    const waiting = [...pages];
    const work = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const { name, url, isSignedIn } = next;
        const page = await (isSignedIn ? member : stranger).newPage();
        await open(page, url);
        // A machine that is busy refuses now and then.
        for (let again = 0; again < 5 && (await failures(page)).length > 0; again += 1) await open(page, url);
        const [picture, wanted] = README[name] ?? [];
        if (pictures && width === 1280 && wanted === theme) {
          await page.screenshot({ path: join(pictures, `${picture}.png`), clip: CLIP });
        }
        // As high as the page: what is drawn beyond the window is now and then drawn twice.
        const height = await page.evaluate(() => document.documentElement.scrollHeight);
        await page.setViewportSize({ width, height: Math.min(height, HIGHEST) });
        // What comes into view may ask for more; and all is drawn anew, without what was drawn for the smaller window.
        await settled(page);
        await page.evaluate(() => {
          const { style } = document.documentElement;
          style.display = 'none';
          void document.documentElement.offsetHeight;
          style.removeProperty('display');
        });
        await settled(page);
        await page.screenshot({ path: join(here, `${name}.png`) });
        await page.close();
      }
    };
    await Promise.all(Array.from({ length: TABS }, work));
    await member.close();
    await stranger.close();
  }
}
await browser.close();
console.log(`${pages.length * WIDTHS.length * THEMES.length} photographs in ${folder}`);
