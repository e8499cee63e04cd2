// What the API has answered, shown at once and refreshed behind. One entry for each key; pages that show the same thing share it.

import { untrack } from 'svelte';
import { createSubscriber } from 'svelte/reactivity';
import { Problem } from '#lib/api/problem.ts';

/** Entries that are remembered, beside those that are shown; the one that was asked for longest ago is forgotten first. */
const CAPACITY = 200;

/** A thing of the API, as far as it is known. */
export class Resource<T> {
  #data = $state.raw<T | undefined>();
  /** The reason for which the last call failed; the data before it stays. */
  problem = $state.raw<Problem | undefined>();
  /** Whether a call is on its way. */
  isLoading = $state(false);

  #fetch: (partial: (data: T) => void) => Promise<T>;
  /** Changes that are shown and not sent yet, in their order. */
  #overlays = $state.raw<((data: T) => T)[]>([]);
  /** The time of the last answer. */
  #answeredAt = -Infinity;
  #flight: Promise<void> | undefined;
  /** Counts changes made here: an answer to a call from before one of them says nothing new. */
  #version = 0;
  /** Counts what has made earlier answers old, whoever has done it. */
  #epoch = 0;
  /** The places of the page that show it. */
  #watchers = 0;
  /** Whether it became old while nobody looked. */
  #isStale = false;
  #watch = createSubscriber(() => {
    this.#watchers += 1;
    // Not now: what begins to look may be deriving what it shows.
    if (this.#isStale) queueMicrotask(() => void this.refresh());
    return () => (this.#watchers -= 1);
  });

  /** Whether an answer lasts: it is asked for again only by {@link refresh}. */
  #lasts: (data: T) => boolean;

  constructor(fetch: (partial: (data: T) => void) => Promise<T>, lasts: (data: T) => boolean = () => false) {
    this.#fetch = fetch;
    this.#lasts = lasts;
  }

  /** The last answer; `undefined` until the first one. */
  get data(): T | undefined {
    this.#watch();
    const data = this.#data;
    return data === undefined ? data : this.#overlays.reduce<T>((shown, apply) => apply(shown), data);
  }

  /** Whether the page shows it at the moment. */
  get isShown(): boolean {
    return this.#watchers > 0;
  }

  /** Whether the last answer still holds, whatever has happened. */
  get isLasting(): boolean {
    return this.#data !== undefined && this.#lasts(this.#data);
  }

  /** Whether the last answer is younger than this, and nothing has been heard since that makes it old. */
  isFresh(ms: number): boolean {
    return this.#data !== undefined && !this.#isStale && Date.now() - this.#answeredAt < ms;
  }

  /** Shows a change that is not sent yet, over whatever is answered meanwhile. The function returned takes it away. */
  overlay(apply: (data: T) => T): () => void {
    this.#overlays = [...this.#overlays, apply];
    return () => (this.#overlays = this.#overlays.filter((other) => other !== apply));
  }

  /** Asks again; a call on its way answers for all who ask meanwhile. */
  refresh(): Promise<void> {
    this.#flight ??= this.#load().finally(() => (this.#flight = undefined));
    return this.#flight;
  }

  /** Asks again, and believes no answer that was asked for before. */
  renew(): Promise<void> {
    this.#epoch += 1;
    return this.#flight ? this.#flight.then(() => this.refresh()) : this.refresh();
  }

  /** Says that the answer is old: what is shown is asked for again now, what is not when somebody looks. */
  expire(): void {
    if (this.isLasting) return;
    if (this.isShown) void this.renew();
    else this.#isStale = true;
  }

  /** Puts a value in place, as after a change that the API has confirmed. */
  set(data: T): void {
    this.#version += 1;
    this.#data = data;
    this.problem = undefined;
  }

  /**
   * Shows a change before the API has made it. When it fails, what was before comes back, and the failure is thrown. In either case
   * the truth is asked for afterwards.
   */
  async change<R>(apply: (data: T) => T, request: () => Promise<R>): Promise<R> {
    const before = this.#data;
    if (before !== undefined) this.set(apply(before));
    const version = this.#version;
    try {
      return await request();
    } catch (thrown) {
      if (version === this.#version && before !== undefined) this.set(before);
      throw Problem.from(thrown);
    } finally {
      void this.renew();
    }
  }

  async #load(): Promise<void> {
    const [version, epoch] = [this.#version, this.#epoch];
    this.isLoading = true;
    this.#isStale = false;
    try {
      const isFirst = this.#data === undefined;
      const data = await this.#fetch((part) => {
        // A beginning is better than nothing, and worse than all of what was known.
        if (isFirst && version === this.#version) this.#data = part;
      });
      if (version === this.#version && epoch === this.#epoch) this.#data = data;
      this.#answeredAt = Date.now();
      this.problem = undefined;
    } catch (thrown) {
      this.problem = Problem.from(thrown);
      // It is gone, or not for us any more: what it was is not shown on.
      if (this.problem.status === 403 || this.problem.status === 404) this.#data = undefined;
    } finally {
      this.isLoading = false;
    }
  }
}

const kept = new Map<string, Pick<Resource<unknown>, 'expire' | 'isShown'>>();

/**
 * The resource of this key, made by the first who asks, and refreshed now unless its answer is younger than `freshMs`. The key is the
 * API's path, so one key has one type.
 */
export function resource<T>(
  key: string,
  fetch: (partial: (data: T) => void) => Promise<T>,
  lasts?: (data: T) => boolean,
  freshMs = 0,
): Resource<T> {
  const known = kept.get(key) as Resource<T> | undefined;
  const found = known ?? new Resource(fetch, lasts);
  kept.delete(key);
  kept.set(key, found);
  for (const [oldest, entry] of kept) {
    if (kept.size <= CAPACITY) break;
    // What is shown has to hear of events.
    if (entry !== found && !entry.isShown) kept.delete(oldest);
  }
  // Asked for while a page derives what it shows: what changes by it is none of the page's own doing.
  untrack(() => {
    if (!found.isLasting && !found.isFresh(freshMs)) void found.refresh();
  });
  return found;
}

/**
 * Makes everything under these keys old: an event of the stream, or a change, has said so. A key stands for itself, whatever its query;
 * with `/*` at its end, for all below it, too.
 */
export function invalidate(...keys: string[]): void {
  for (const [key, entry] of kept) {
    if (keys.some((stale) => covers(stale, key))) entry.expire();
  }
}

/** Makes everything old: what has happened meanwhile is not known. */
export function invalidateAll(): void {
  for (const entry of kept.values()) entry.expire();
}

/** Whether a key of {@link invalidate} stands for the key of a resource. */
export function covers(stale: string, key: string): boolean {
  const path = key.split('?')[0] ?? key;
  if (!stale.endsWith('/*')) return path === stale;
  const above = stale.slice(0, -2);
  return path === above || path.startsWith(`${above}/`);
}
