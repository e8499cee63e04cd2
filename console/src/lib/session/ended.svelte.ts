// The end of the session, wherever it came from: signed out in another tab, everywhere, or expired. The page keeps what was typed and
// hides what it showed, until the same person has signed in again; the calls that were refused are then made again.

import { pace } from '#lib/api/pace.svelte.ts';

const LOOK_MS = 5_000;
const CHANNEL = 'session';

class Session {
  /** Whether the page waits for a sign-in. */
  isEnded = $state(false);
  /** The account that the page shows. */
  #account: string | undefined;
  #waiting: (() => void)[] = [];
  #timer: ReturnType<typeof setInterval> | undefined;
  /** Tells the other tabs that somebody is signed in here. */
  #channel: BroadcastChannel | undefined;

  /** Listens for what other tabs tell, and looks when somebody comes back to this one. */
  watch(): () => void {
    const look = () => void this.look();
    this.#channel = new BroadcastChannel(CHANNEL);
    this.#channel.onmessage = look;
    addEventListener('focus', look);
    return () => {
      this.#channel?.close();
      clearInterval(this.#timer);
      removeEventListener('focus', look);
    };
  }

  /** Whose page it is. Another person's sign-in in the same browser begins it anew. Returns whether it is the same person's. */
  isOf(account: string): boolean {
    if (this.#account !== undefined && this.#account !== account) {
      location.assign('/');
      return false;
    }
    if (this.#account === undefined) this.#channel?.postMessage(null);
    this.#account = account;
    return true;
  }

  /**
   * Called when the API knows the session no longer. The promise is settled once it may be asked again. A page that has shown nobody's
   * data has nothing to keep: it leaves for the sign-in page.
   */
  end(): Promise<void> {
    if (this.#account === undefined) {
      leave();
      return new Promise(() => undefined);
    }
    if (!this.isEnded) {
      this.isEnded = true;
      this.#timer = setInterval(() => void this.look(), LOOK_MS);
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Looks whether somebody is signed in again. */
  async look(): Promise<void> {
    if (!this.isEnded || document.visibilityState === 'hidden') return;
    const answer = await fetch('/api/me').catch(() => undefined);
    if (!this.isEnded || !answer?.ok) return;
    const { id } = (await answer.json()) as { id: string };
    clearInterval(this.#timer);
    // Another person's page comes: what is hidden stays so, and no call is made in that person's name.
    if (!this.isOf(id)) return;
    this.isEnded = false;
    for (const resume of this.#waiting.splice(0)) resume();
  }
}

/** The page that signs people in, and brings them back to where they are. */
export function signInPath(): string {
  return `/sign-in?return_to=${encodeURIComponent(location.pathname + location.search)}`;
}

/** Leaves for the sign-in page: it is rendered by the server, not one of ours. */
export function leave(): void {
  location.assign(signInPath());
}

export const session = new Session();

/** Calls the API. When the session has ended, it waits for the next sign-in and calls again: nothing was done before. */
export async function fetchSignedIn(request: Request): Promise<Response> {
  for (;;) {
    const answer = await pace.send(request, (again) => fetch(again));
    if (answer.status !== 401) return answer;
    await session.end();
  }
}
