// One stream of events for the whole tab. What an event names is asked for again; without the stream everything shown is, now and then.

import { pace } from '#lib/api/pace.svelte.ts';
import { session } from '#lib/session/ended.svelte.ts';
import { invalidate, invalidateAll } from '#lib/store.svelte.ts';
import type { Change } from './affected.ts';

const STREAM = '/api/events';
const POLL_MS = 10_000;
/** A stream that was refused is asked for again after this long, then after twice as long, and so on. */
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 60_000;
/** A tab that nobody has looked at for this long gives its stream back: an account may have few. */
const HIDDEN_MS = 5 * 60_000;
/** Receipts that are remembered, the newest. */
const RECEIPTS = 50;

/** The progress of the newest deployment of a site. */
export interface Receipt {
  edges: number;
  of: number;
  ms: number;
}

class Stream {
  /** Whether events arrive; otherwise the page polls. */
  isLive = $state(false);
  /** Whether the browser has no network. */
  isOffline = $state(false);
  /** The newest receipt of each site. */
  receipts = $state.raw<ReadonlyMap<string, Receipt>>(new Map());
  #source: EventSource | undefined;
  #poll: ReturnType<typeof setInterval> | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #hidden: ReturnType<typeof setTimeout> | undefined;
  #wait = FIRST_WAIT_MS;
  /** Whether the next opening follows a time in which changes may have been missed. */
  #missed = false;

  /** Begins to listen; the function returned ends it. */
  start(): () => void {
    const listeners = new AbortController();
    const { signal } = listeners;
    this.isOffline = !navigator.onLine;
    pace.onback = () => this.#back();
    addEventListener('online', () => this.#back(), { signal });
    addEventListener('offline', () => this.#away(), { signal });
    document.addEventListener('visibilitychange', () => this.#seen(), { signal });
    this.#open();
    return () => {
      listeners.abort();
      this.#close();
    };
  }

  #open(): void {
    clearTimeout(this.#again);
    this.#source?.close();
    const source = new EventSource(STREAM);
    this.#source = source;
    this.#polls(true);
    source.onopen = () => {
      this.isLive = true;
      this.#wait = FIRST_WAIT_MS;
      this.#polls(false);
      if (this.#missed) invalidateAll();
      this.#missed = false;
    };
    source.onerror = () => {
      this.isLive = false;
      this.#polls(true);
      if (!this.isOffline) void pace.look();
      // Otherwise the browser connects again by itself, and tells where it was: nothing is missed.
      if (source.readyState === EventSource.CLOSED) this.#retry();
    };
    source.addEventListener('change', (event: MessageEvent<string>) => this.#take(event));
    source.addEventListener('reset', () => invalidateAll());
    source.addEventListener('signed_out', () => {
      this.#close();
      void session.end().then(() => this.#back());
    });
  }

  #close(): void {
    this.#source?.close();
    this.#source = undefined;
    clearTimeout(this.#again);
    this.isLive = false;
    this.#polls(false);
  }

  #retry(): void {
    this.#missed = true;
    // Tabs that were refused together do not come back together.
    this.#again = setTimeout(() => this.#open(), this.#wait * (0.5 + Math.random()));
    this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT_MS);
  }

  #take(event: MessageEvent<string>): void {
    const change = JSON.parse(event.data) as Change;
    // Receipts of other changes say nothing of what is served.
    const isServed = String(change.detail['action']).startsWith('deployment.');
    if (change.type === 'receipt' && change.project !== null && isServed) {
      const others = [...this.receipts].filter(([project]) => project !== change.project);
      const receipt = change.detail as unknown as Receipt;
      this.receipts = new Map([...others.slice(1 - RECEIPTS), [change.project, receipt]]);
    }
    // Not of the first load: nothing needs it before something happens.
    import('./affected.ts').then(
      ({ affected }) => invalidate(...affected(change)),
      () => invalidateAll(),
    );
  }

  #back(): void {
    this.isOffline = false;
    this.#wait = FIRST_WAIT_MS;
    this.#missed = false;
    invalidateAll();
    this.#open();
  }

  #away(): void {
    this.isOffline = true;
    this.#close();
  }

  #seen(): void {
    clearTimeout(this.#hidden);
    if (document.visibilityState === 'hidden') this.#hidden = setTimeout(() => this.#close(), HIDDEN_MS);
    else if (!this.#source && !this.isOffline && !session.isEnded) this.#back();
  }

  #polls(on: boolean): void {
    // Each attempt to open the stream says so again: the clock goes on that runs already.
    if (on && this.#poll !== undefined) return;
    clearInterval(this.#poll);
    this.#poll = undefined;
    if (!on) return;
    this.#poll = setInterval(() => {
      if (document.visibilityState === 'visible') invalidateAll();
    }, POLL_MS);
  }
}

export const stream = new Stream();
