// Walks every journey by keyboard, on one page after the other as a person does, and holds each page to its policy.

import { launch, profile } from './chromium.ts';
import { complaints, watch } from './complaints.ts';
import { journeys, Walk } from './journeys.ts';

const browser = await launch();
const context = await profile(browser);
await watch(context);
const walk = new Walk(await context.newPage());
for (const [name, journey] of Object.entries(journeys)) {
  try {
    await journey(walk, browser);
    const said = await complaints(walk.page);
    if (said.length > 0) throw new Error(said.join('\n'));
  } catch (error) {
    const text = await walk.page.locator('body').innerText();
    throw new Error(`${name}, at ${walk.page.url()}: ${String(error)}\n${text}`, { cause: error });
  }
  console.log(name);
}
await browser.close();
