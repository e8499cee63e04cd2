// The server has a newer console than this page: its parts that are not loaded yet are gone.

import { version } from '$app/env';
import { navigating } from '$app/state';

const VERSION = '/_app/version.json';
const RELOADED = 'reloaded-from';

/**
 * Loads the page anew when a part of it cannot be loaded, or the one that was on its way: once for a version, so that what is broken
 * does not turn in circles.
 */
export function reloadOnce(): () => void {
  const reload = async () => {
    // Of a server that is away nothing can be loaded: the page stays, with what is typed on it.
    const answer = await fetch(VERSION, { cache: 'no-store' }).catch(() => undefined);
    if (!answer?.ok || ((await answer.json()) as { version: string }).version === version) return;
    if (sessionStorage.getItem(RELOADED) === version) return;
    sessionStorage.setItem(RELOADED, version);
    if (navigating.to) location.assign(navigating.to.url);
    else location.reload();
  };
  const failed = () => void reload();
  addEventListener('vite:preloadError', failed);
  return () => removeEventListener('vite:preloadError', failed);
}
