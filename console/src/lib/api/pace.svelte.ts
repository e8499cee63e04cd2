// The pace at which the API is asked: a few things at once, and slower when the server says so. A page that has to wait shows what it has,
// and goes on by itself.

/** Questions under way at once; the server refuses many of one account. */
const AT_ONCE = 6;
/** A refusal without a time. */
const WAIT_MS = 5_000;
/** A page does not wait longer than this, whatever the server says. */
const LONGEST_WAIT_MS = 5 * 60_000;
/** Longer than this nobody is left to wait for an act: it was not done, and says so. */
const LONGEST_ACT_MS = 5_000;
/** How often a busy server is asked the same again. */
const MOST_TRIES = 4;
/** How often a server that is away is looked for. */
const LOOK_MS = 3_000;
const HEALTH = '/api/health';
/** Answers that come from before the server, which is away. */
const NOBODY = new Set([502, 504]);
/** Those who were refused together do not come back together. */
const SPREAD_MS = 400;

/** The wait that a refusal asks for, in milliseconds. */
export function retryAfter(headers: Headers, now: number): number | undefined {
  const text = headers.get('Retry-After');
  if (text === null) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - now) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : undefined;
}

class Pace {
  /** The time until which nothing is asked; `undefined` while the server keeps up. */
  until = $state<number | undefined>();
  /** Whether the server cannot be reached. */
  isAway = $state(false);
  /** Called when it is back. */
  onback: (() => void) | undefined;
  #running = 0;
  #queue: (() => void)[] = [];

  /** Sends the request once it is its turn, and again when the server was too busy for it. */
  async send(request: Request, fetch: (request: Request) => Promise<Response>): Promise<Response> {
    const isQuestion = request.method === 'GET';
    for (let tries = 1; ; tries += 1) {
      if (isQuestion) await this.#enter();
      let answer: Response;
      try {
        await this.#rest();
        answer = await fetch(request.clone());
      } catch (thrown) {
        if (!request.signal.aborted) void this.look();
        throw thrown;
      } finally {
        if (isQuestion) this.#leave();
      }
      const wait = this.#waitFor(answer, isQuestion, tries);
      if (wait === undefined) return answer;
      await sleep(wait + Math.random() * SPREAD_MS);
    }
  }

  /** Looks whether the server is there; while it is not, again and again. */
  async look(): Promise<void> {
    if (this.isAway) return;
    for (;;) {
      const answer = await fetch(HEALTH, { cache: 'no-store' }).catch(() => undefined);
      if (answer && !NOBODY.has(answer.status)) break;
      this.isAway = true;
      await sleep(LOOK_MS);
    }
    if (!this.isAway) return;
    this.isAway = false;
    this.onback?.();
  }

  /** How long to wait before the same is asked again; `undefined` when this is the answer. */
  #waitFor({ status, headers }: Response, isQuestion: boolean, tries: number): number | undefined {
    if (status !== 429 && !(status === 503 && isQuestion)) return undefined;
    const asked = retryAfter(headers, Date.now());
    if (status === 503 && (asked === undefined || tries >= MOST_TRIES)) return undefined;
    const wait = Math.min(asked ?? WAIT_MS, LONGEST_WAIT_MS);
    if (!isQuestion && wait > LONGEST_ACT_MS) return undefined;
    // Refused for all that is asked, and not for this alone: the others need not try.
    if (status === 429 && headers.get('X-RateLimit-Remaining') === '0') this.#hold(wait);
    return wait;
  }

  #hold(ms: number): void {
    const until = Date.now() + ms;
    if (this.until !== undefined && this.until >= until) return;
    this.until = until;
    setTimeout(() => {
      if (this.until !== until) return;
      this.until = undefined;
    }, ms);
  }

  async #rest(): Promise<void> {
    while (this.until !== undefined) {
      await sleep(Math.max(0, this.until - Date.now()) + Math.random() * SPREAD_MS);
    }
  }

  async #enter(): Promise<void> {
    if (this.#running < AT_ONCE) this.#running += 1;
    // The place is handed on by whoever leaves.
    else await new Promise<void>((resolve) => this.#queue.push(resolve));
  }

  #leave(): void {
    const next = this.#queue.shift();
    if (next) next();
    else this.#running -= 1;
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export const pace = new Pace();
