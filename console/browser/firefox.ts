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

/** One process for pages, none for what a page without a screen does not need, and nothing that asks the internet. */
const PREFERENCES = {
  'dom.ipc.processCount': 1,
  'dom.ipc.processCount.webIsolated': 1,
  'dom.ipc.processPrelaunch.enabled': false,
  'fission.autostart': false,
  'extensions.webextensions.remote': false,
  'gfx.webrender.software': true,
  'layers.gpu-process.enabled': false,
  'media.rdd-process.enabled': false,
  'media.utility-process.enabled': false,
  'browser.startup.preXulSkeletonUI': false,
  'browser.sessionstore.interval': 600_000,
  'app.update.auto': false,
  'app.normandy.enabled': false,
  'browser.region.network.url': '',
  'browser.topsites.contile.enabled': false,
  'extensions.blocklist.enabled': false,
  'extensions.systemAddon.update.enabled': false,
  'network.captive-portal-service.enabled': false,
  // Where its cache is slow it asks the network as well, and says of the page that whichever came second was aborted.
  'network.http.rcwn.enabled': false,
  'network.trr.mode': 5,
  'security.OCSP.enabled': 0,
  'security.remote_settings.crlite_filters.enabled': false,
  'security.remote_settings.intermediates.enabled': false,
  'services.settings.server': 'data:,#remote-settings-dummy/v1',
  'toolkit.telemetry.enabled': false,
  'toolkit.telemetry.unified': false,
  'toolkit.telemetry.server': '',
};

/** Debian's Firefox, which finds every name under `localhost` on this machine by itself. */
export async function launchFirefox(): Promise<Browser> {
  const browser = await firefox.launch({
    channel: 'moz-firefox',
    executablePath: FIREFOX,
    firefoxUserPrefs: PREFERENCES,
  });
  const driver = browser as unknown as Driver;
  const sessions = Object.getPrototypeOf(driver._connection.toImpl(browser)._browserSession) as Session;
  const { send } = sessions;
  sessions.send = function (this: Session, method, parameters) {
    return UNKNOWN.has(method) ? Promise.resolve({}) : send.call(this, method, parameters);
  };
  return browser;
}
