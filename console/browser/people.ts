// What people come to do, with the mouse and at both widths: each journey ends with what the person wanted on the screen. SVC_PEOPLE_ONLY
// names those to walk, and SVC_BROWSER=firefox walks them in Firefox.

import { isFirefox, launch } from './chromium.ts';
import { launchFirefox } from './firefox.ts';
import { dropping } from './people/dropping.ts';
import { many } from './people/many.ts';
import { paying } from './people/paying.ts';
import { surroundings } from './people/surroundings.ts';
import { undoing } from './people/undoing.ts';

const only = new RegExp(process.env['SVC_PEOPLE_ONLY'] ?? '');
const journeys = { ...dropping, ...undoing, ...paying, ...many, ...surroundings };
/** What only Chromium lets a test do: drag folders, slow the line down, and ask again for a script that failed. */
const CHROMIUM_ONLY = new Set([
  ...Object.keys(dropping),
  'a slow line shows the frame before the rest',
  'a server that is gone is said, and the page goes on when it is back',
]);
CHROMIUM_ONLY.delete('files that are dropped are read in any browser');
const failed: string[] = [];
const browser = await (isFirefox ? launchFirefox() : launch());
for (const [name, journey] of Object.entries(journeys)) {
  if (!only.test(name) || (isFirefox && CHROMIUM_ONLY.has(name))) continue;
  try {
    await journey(browser);
    console.log(name);
  } catch (error) {
    failed.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
if (failed.length > 0) throw new Error(failed.join('\n\n'));
