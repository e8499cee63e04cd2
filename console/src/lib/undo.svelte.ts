// Acts that can be taken back for ten seconds. The page shows them at once; the API hears of them when the time is over, or when the page
// is left. What the API itself can turn back, such as a rollback, is not held: it is done at once, and its undo does the opposite.

import { Problem } from '#lib/api/problem.ts';
import type { Resource } from '#lib/store.svelte.ts';
import { toasts } from '#lib/ui/toasts.svelte.ts';

interface Act<T> {
  /** Where it is shown, and how. */
  on: Resource<T>;
  apply: (data: T) => T;
  /** What was done, as a sentence. */
  said: string;
  /** What holds when it could not be done, as the beginning of a sentence. */
  failed: string;
  /** Does it. The page may be gone before the answer: the request has to be made with `keepalive`. */
  send: () => Promise<unknown>;
}

/** Does it in ten seconds, unless it is taken back. */
export function inTenSeconds<T>({ on, apply, said, failed, send }: Act<T>): void {
  const takeAway = on.overlay(apply);
  const over = async () => {
    try {
      await send();
      await on.renew();
    } catch (thrown) {
      toasts.fail(failed, Problem.from(thrown));
    } finally {
      takeAway();
    }
  };
  toasts.say(said, { undo: takeAway, over: () => void over() });
}

/** Sends what waits when the page is left; a form such as that of signing out is sent after it. */
export function sendWhenLeft(): () => void {
  const leave = () => toasts.closeAll();
  // A phone may end a page that is hidden without another word.
  const isPhone = matchMedia('(pointer: coarse)').matches;
  const hide = () => isPhone && document.visibilityState === 'hidden' && leave();
  addEventListener('beforeunload', leave);
  addEventListener('pagehide', leave);
  document.addEventListener('visibilitychange', hide);
  return () => {
    removeEventListener('beforeunload', leave);
    removeEventListener('pagehide', leave);
    document.removeEventListener('visibilitychange', hide);
  };
}
