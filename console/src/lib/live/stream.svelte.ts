// One stream of events for the whole tab. What an event names is asked for again; without the stream everything is, now and then.

import { invalidate } from '#lib/store.svelte.ts';

const STREAM = '/api/events';
const POLL_MS = 10_000;
/** A stream that was refused is asked for again. */
const AGAIN_MS = 60_000;
/** What an event makes old, by the kind of what it is about. */
const AFFECTED: Record<string, (name: string) => string[]> = {
  project: (name) => [`/projects/${name}`, '/projects'],
  org: (name) => [`/orgs/${name}`, '/orgs'],
  account: () => ['/me', '/tokens', '/billing', '/usage', '/shares'],
};

class Stream {
  /** Whether events arrive; otherwise the page polls. */
  isLive = $state(false);
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;

  start(): void {
    if (this.#source) return;
    this.#source = new EventSource(STREAM);
    this.#source.onopen = () => {
      // Whatever happened while nobody listened.
      if (!this.isLive) invalidate('/');
      this.isLive = true;
      this.#poll(false);
    };
    this.#source.onerror = () => {
      this.isLive = false;
      this.#poll(true);
      if (this.#source?.readyState !== EventSource.CLOSED) return;
      this.#source = undefined;
      setTimeout(() => this.start(), AGAIN_MS);
    };
    this.#source.addEventListener('change', (event) => this.#take(event));
    this.#poll(true);
  }

  #take(event: MessageEvent<string>): void {
    const change = JSON.parse(event.data) as { subject: string; name: string };
    for (const key of AFFECTED[change.subject]?.(change.name) ?? ['/']) invalidate(key);
  }

  #poll(on: boolean): void {
    clearInterval(this.#timer);
    if (!on) return;
    this.#timer = setInterval(() => {
      if (document.visibilityState === 'visible') invalidate('/');
    }, POLL_MS);
  }
}

export const stream = new Stream();

addEventListener('online', () => invalidate('/'));
