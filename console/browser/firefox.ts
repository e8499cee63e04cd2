// Debian's Firefox, driven by WebDriver BiDi.

import { firefox, type Browser } from 'playwright-core';

export const FIREFOX = '/usr/bin/firefox-esr';

/** A session of the browser, as the driver keeps it. */
interface Session {
  send: (method: string, parameters: unknown) => Promise<unknown>;
}
interface Driver {
  _connection: { toImpl: (object: unknown) => { _browserSession: Session } };
}

/** Commands that the driver sends whatever is asked for, and that Debian's Firefox does not know yet. */
const UNKNOWN = new Set(['emulation.setMediaFeaturesOverride']);

/** Debian's Firefox, which finds every name under `localhost` on this machine by itself. */
export async function launchFirefox(): Promise<Browser> {
  const browser = await firefox.launch({ channel: 'moz-firefox', executablePath: FIREFOX });
  const driver = browser as unknown as Driver;
  const sessions = Object.getPrototypeOf(driver._connection.toImpl(browser)._browserSession) as Session;
  const { send } = sessions;
  sessions.send = function (this: Session, method, parameters) {
    return UNKNOWN.has(method) ? Promise.resolve({}) : send.call(this, method, parameters);
  };
  return browser;
}
