// What people come to do, with the mouse and at both widths: each journey ends with what the person wanted on the screen. SVC_PEOPLE_ONLY
// names those to walk.

import { launch } from './chromium.ts';
import { dropping } from './people/dropping.ts';
import { many } from './people/many.ts';
import { paying } from './people/paying.ts';
import { surroundings } from './people/surroundings.ts';
import { undoing } from './people/undoing.ts';

const only = new RegExp(process.env['SVC_PEOPLE_ONLY'] ?? '');
const journeys = { ...dropping, ...undoing, ...paying, ...many, ...surroundings };
const failed: string[] = [];
const browser = await launch();
for (const [name, journey] of Object.entries(journeys)) {
  if (!only.test(name)) continue;
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
