// A deployment on its way: packed, sent, live.

import { propagation } from '#lib/api/client.ts';
import { Problem } from '#lib/api/problem.ts';
import type { Uploaded } from '#lib/api/schema.d.ts';
import { session } from '#lib/session/ended.svelte.ts';
import type { Selection } from './rules.ts';
import { inWorker } from './work.ts';

export type Step = 'idle' | 'packing' | 'sending' | 'publishing' | 'live' | 'failed';

/** The target: a site, or a share that ends. */
export type Target = { kind: 'site'; name: string } | { kind: 'share'; days: number; password: string };

/** The API's answer, with the receipt of the edges. */
export interface Outcome extends Uploaded {
  receipt: string | undefined;
}

/** What is sent, and its media type. */
interface Body {
  blob: Blob;
  type: string;
}

export class Upload {
  step = $state<Step>('idle');
  /** The part of the present step that is done, from 0 to 1. */
  progress = $state(0);
  /** The bytes of the present step. */
  size = $state(0);
  problem = $state.raw<Problem | undefined>();
  outcome = $state.raw<Outcome | undefined>();
  #stop: (() => void) | undefined;

  get isUnderWay(): boolean {
    return this.step === 'packing' || this.step === 'sending' || this.step === 'publishing';
  }

  async run(selection: Selection, target: Target): Promise<void> {
    this.problem = undefined;
    this.outcome = undefined;
    try {
      this.#go('packing');
      const [archive] = selection.files;
      const isArchive = selection.archive !== undefined && archive !== undefined;
      const body = isArchive
        ? { blob: archive.file, type: selection.archive ?? '' }
        : { blob: await this.#pack(selection), type: 'application/gzip' };
      this.outcome = await this.#sendSignedIn(body, target);
      this.#go('live');
    } catch (thrown) {
      this.problem = Problem.from(thrown);
      this.step = 'failed';
    } finally {
      this.#stop = undefined;
    }
  }

  stop(): void {
    this.#stop?.();
  }

  #go(step: Step): void {
    this.step = step;
    this.progress = 0;
  }

  async #pack(selection: Selection): Promise<Blob> {
    const stop = new AbortController();
    this.#stop = () => stop.abort(stopped());
    this.size = selection.bytes;
    const progress = (read: number) =>
      (this.progress = selection.bytes === 0 ? 1 : Math.min(1, read / selection.bytes));
    const work = { act: 'pack', files: selection.files } as const;
    return (await inWorker(work, 'packed', progress, stop.signal)).blob;
  }

  /** When the session has ended meanwhile, what is packed waits for the next sign-in. */
  async #sendSignedIn(body: Body, target: Target): Promise<Outcome> {
    for (;;) {
      this.#go('sending');
      try {
        return await this.#send(body, target);
      } catch (thrown) {
        if (!(thrown instanceof Problem && thrown.isSignedOut)) throw thrown;
        await session.end();
      }
    }
  }

  /** By XMLHttpRequest, which alone tells how much was sent. */
  #send({ blob, type }: Body, target: Target): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      this.size = blob.size;
      this.#stop = () => request.abort();
      request.open('POST', address(target));
      request.setRequestHeader('Content-Type', type);
      request.setRequestHeader('Idempotency-Key', crypto.randomUUID());
      if (target.kind === 'share' && target.password)
        request.setRequestHeader('X-Svc-Share-Password', asHeader(target.password));
      request.upload.onprogress = ({ loaded, total }) => (this.progress = total > 0 ? loaded / total : 0);
      request.upload.onload = () => this.#go('publishing');
      request.onabort = () => reject(stopped());
      request.onerror = () => reject(Problem.offline());
      request.onload = () => {
        const headers = new Headers();
        for (const name of ['X-Request-Id', 'X-Svc-Propagation', 'Retry-After']) {
          const value = request.getResponseHeader(name);
          if (value) headers.set(name, value);
        }
        const response = new Response(null, { status: Math.max(200, request.status), headers });
        let body: unknown;
        try {
          body = JSON.parse(request.responseText);
        } catch {
          body = undefined;
        }
        if (!response.ok || body === undefined) reject(Problem.of(response, body));
        else resolve({ ...(body as Uploaded), receipt: propagation(response) });
      };
      request.send(blob);
    });
  }
}

/** A header's value has a byte a character; the API reads the bytes as UTF-8. */
function asHeader(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function address(target: Target): string {
  if (target.kind === 'site') return `/api/projects/${encodeURIComponent(target.name)}/deployments`;
  return `/api/shares?ttl=${target.days}`;
}

function stopped(): Problem {
  return new Problem(
    'stopped',
    'You stopped it. Look at the site’s deployments to see whether it was published all the same.',
    0,
  );
}
