// Short messages about what has just happened, at the foot of the page.

import { Problem } from '#lib/api/problem.ts';

const LIFE_MS = 6_000;
const MOST = 4;

export interface Toast {
  id: number;
  text: string;
  tone: 'good' | 'bad';
  requestId: string | undefined;
}

class Toasts {
  list = $state.raw<Toast[]>([]);
  #next = 0;

  say(text: string, tone: Toast['tone'] = 'good', requestId?: string): void {
    const id = this.#next++;
    this.list = [...this.list, { id, text, tone, requestId }].slice(-MOST);
    // What went wrong stays until it is closed.
    if (tone === 'good') setTimeout(() => this.close(id), LIFE_MS);
  }

  fail(what: string, thrown: unknown): void {
    const problem = Problem.from(thrown);
    this.say(`${what}: ${problem.message}`, 'bad', problem.requestId);
  }

  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
