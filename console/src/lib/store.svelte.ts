// What the API has answered, shown at once and refreshed behind. One entry for each key; pages that show the same thing share it.

import { untrack } from 'svelte';
import { createSubscriber } from 'svelte/reactivity';
import { Problem } from '#lib/api/problem.ts';

/** An entry nobody looked at for this long is forgotten first. */
const CAPACITY = 200;

/** A thing of the API, as far as it is known. */
export class Resource<T> {
  #data = $state.raw<T | undefined>();
  /** Why the last call failed; the data before it stays. */
  problem = $state.raw<Problem | undefined>();
  /** Whether a call is on its way. */
  isLoading = $state(false);

  #fetch: () => Promise<T>;
  #flight: Promise<void> | undefined;
  /** Counts changes made here: an answer to a call from before one of them says nothing new. */
  #version = 0;
  /** Counts what has made earlier answers old, whoever has done it. */
  #epoch = 0;
  /** The places of the page that show it. */
  #watchers = 0;
  #watch = createSubscriber(() => {
    this.#watchers += 1;
    return () => (this.#watchers -= 1);
  });

  constructor(fetch: () => Promise<T>) {
    this.#fetch = fetch;
  }

  /** The last answer; `undefined` until the first one. */
  get data(): T | undefined {
    this.#watch();
    return this.#data;
  }

  /** Whether the page shows it at the moment. */
  get isShown(): boolean {
    return this.#watchers > 0;
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
    try {
      const data = await this.#fetch();
      if (version === this.#version && epoch === this.#epoch) this.#data = data;
      this.problem = undefined;
    } catch (thrown) {
      this.problem = Problem.from(thrown);
    } finally {
      this.isLoading = false;
    }
  }
}

const kept = new Map<string, Resource<unknown>>();

/** The resource of this key, made by the first who asks, and refreshed now. The key is the API's path, so one key has one type. */
export function resource<T>(key: string, fetch: () => Promise<T>): Resource<T> {
  const known = kept.get(key) as Resource<T> | undefined;
  const found = known ?? new Resource(fetch);
  kept.delete(key);
  kept.set(key, found);
  for (const oldest of kept.keys()) {
    if (kept.size <= CAPACITY) break;
    kept.delete(oldest);
  }
  // Asked for while a page derives what it shows: what changes by it is none of the page's own doing.
  untrack(() => void found.refresh());
  return found;
}

/**
 * Renews what is shown of everything under keys with this beginning: an event of the stream, or a change, has made it old. What is not
 * shown is forgotten, and asked for when somebody looks.
 */
export function invalidate(prefix: string): void {
  for (const [key, entry] of kept) {
    if (!key.startsWith(prefix)) continue;
    if (entry.isShown) void entry.renew();
    else kept.delete(key);
  }
}

/** Forgets everything: somebody else is signed in, or nobody. */
export function forgetAll(): void {
  kept.clear();
}
