// What people come to do, with the mouse: each journey ends with what the person wanted on the screen. SVC_PEOPLE_PARTS names the parts to
// walk, or with a minus before them those to leave out, and SVC_PEOPLE_ONLY the journeys. SVC_BROWSER=firefox walks in Firefox what depends
// on the browser.

import { isFirefox, launch } from './chromium.ts';
import { launchFirefox } from './firefox.ts';
import { dropping } from './people/dropping.ts';
import { finding } from './people/finding.ts';
import { joining } from './people/joining.ts';
import { looking } from './people/looking.ts';
import { many } from './people/many.ts';
import { paying } from './people/paying.ts';
import { surroundings } from './people/surroundings.ts';
import { undoing } from './people/undoing.ts';
import type { Journey } from './people/visitor.ts';

const only = new RegExp(process.env['SVC_PEOPLE_ONLY'] ?? '');
const parts: Record<string, Record<string, Journey>> = {
  dropping,
  undoing,
  paying,
  many,
  surroundings,
  joining,
  finding,
  looking,
};
const named = process.env['SVC_PEOPLE_PARTS'] ?? '-';
const names = named.replace('-', '').split(',').filter(Boolean);
const chosen = Object.keys(parts).filter((part) => names.includes(part) !== named.startsWith('-'));
/** What browsers do each in their own way: files that are read, packed and sent, dialogs and their keys, requests of a page that is left, forms
 * that lead to another host and back, and numbers and dates. The rest is the same script, walked in Chromium. */
const IN_FIREFOX = [
  'files that are dropped are read and published in any browser',
  'what cannot be undone names what is lost',
  'what is published wants its name typed',
  'what is taken back is never sent, and what is not is sent when the page is left',
  "an organization's owner comes back to its bill",
  'German and Arabic browsers read English numbers in English sentences',
];

const journeys = chosen.flatMap((part) => Object.entries(parts[part] ?? {}));
const unknown = [
  ...names.filter((name) => !(name in parts)),
  ...IN_FIREFOX.filter((name) => !Object.values(parts).some((part) => name in part)),
];
if (unknown.length > 0) throw new Error(`these are not there: ${unknown.join(', ')}`);

const failed: string[] = [];
let walked = 0;
const browser = await (isFirefox ? launchFirefox() : launch());
for (const [name, journey] of journeys) {
  if (!only.test(name) || (isFirefox && !IN_FIREFOX.includes(name))) continue;
  const began = performance.now();
  try {
    await journey(browser);
  } catch (error) {
    failed.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
  walked += 1;
  console.log(`${((performance.now() - began) / 1000).toFixed(1).padStart(6)} s  ${name}`);
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
if (failed.length > 0) throw new Error(failed.join('\n\n'));
if (walked === 0) throw new Error('no journey was walked');
