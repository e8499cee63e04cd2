// The server has a newer console than this page: its parts that are not loaded yet are gone.

import { version } from '$app/env';
import { navigating } from '$app/state';

const RELOADED = 'reloaded-from';

/**
 * Loads the page anew when a part of it cannot be loaded, or the one that was on its way: once for a version, so that what is broken
 * does not turn in circles.
 */
export function reloadOnce(): () => void {
  const reload = () => {
    if (sessionStorage.getItem(RELOADED) === version) return;
    sessionStorage.setItem(RELOADED, version);
    if (navigating.to) location.assign(navigating.to.url);
    else location.reload();
  };
  addEventListener('vite:preloadError', reload);
  return () => removeEventListener('vite:preloadError', reload);
}
