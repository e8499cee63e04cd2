// Opens every page of a site, an organization and a person whose every name tries to become markup or script, and looks whether one
// has. Then signs in with addresses to return to that lead elsewhere.

import { launch, open, profile, signedIn, signIn } from './chromium.ts';
import { complaints, watch } from './complaints.ts';
import { consolePages, serverPages } from './routes.ts';
import { scene } from './scene.ts';

const ELSEWHERE = [
  '//evil.example/',
  'https://evil.example/',
  '/\\evil.example/',
  '/%09/evil.example',
  '/.//evil.example',
  'javascript:alert(1)',
  '/gate?host=evil.example&return=/',
];

const found: string[] = [];
const browser = await launch();
const context = await profile(browser, { state: await signedIn(browser) });
await watch(context);
// What a site serves is its owner's own, behind its gate too.
const ours = [scene.console, scene.api];
const pages = [...consolePages(), ...serverPages()].filter(({ url }) =>
  ours.some((origin) => url.startsWith(origin)),
);
let told = 0;
const page = await context.newPage();
for (const { name, url } of pages) {
  await open(page, url);
  const seen = await page.evaluate((attack) => {
    const shown =
      document.body.innerText + [...document.querySelectorAll('input')].map((input) => input.value).join();
    const grown = document.querySelectorAll('img[src="x"], b, i, [onerror], a[href^="javascript:"]');
    return {
      title: document.title,
      grown: [...grown].map((one) => one.outerHTML),
      isTold: shown.includes(attack),
    };
  }, scene.attack);
  if (seen.isTold) told += 1;
  if (seen.title === 'taken') found.push(`${name}: a name has run`);
  found.push(...seen.grown.map((markup) => `${name}: a name became ${markup}`));
  found.push(...(await complaints(page)).map((complaint) => `${name}: ${complaint}`));
}
// Otherwise nothing was tried.
if (told < 5) found.push(`only ${told} pages show a name that attacks`);

for (const back of ELSEWHERE) {
  const stranger = await profile(browser);
  const page = await stranger.newPage();
  await signIn(page, scene.login, back);
  await page.waitForLoadState();
  if (new URL(page.url()).origin !== scene.console) found.push(`${back} leads to ${page.url()}`);
  await stranger.close();
}
await browser.close();
if (found.length > 0) throw new Error(found.join('\n'));
console.log(
  `${pages.length} pages show names as text, ${told} of them the one that attacks; nothing leads elsewhere`,
);
