// Short messages about what has just happened, at the foot of the page.

import { Problem } from '#lib/api/problem.ts';

const LIFE_MS = 6_000;
/** The time in which an act can be taken back. */
export const UNDO_MS = 10_000;
const MOST = 4;

export interface Toast {
  id: number;
  text: string;
  tone: 'good' | 'bad';
  requestId: string | undefined;
  /** Takes back what the message tells of. */
  undo: (() => void) | undefined;
}

interface Options {
  tone?: Toast['tone'];
  requestId?: string | undefined;
  undo?: (() => void) | undefined;
  /** Called once, when the message goes without having been taken back. */
  over?: () => void;
}

class Toasts {
  list = $state.raw<Toast[]>([]);
  #next = 0;
  #ends = new Map<
    number,
    { timer: ReturnType<typeof setTimeout> | undefined; over: (() => void) | undefined }
  >();

  say(text: string, { tone = 'good', requestId, undo, over }: Options = {}): void {
    const id = this.#next++;
    this.#ends.set(id, { timer: undefined, over });
    this.list = [...this.list, { id, text, tone, requestId, undo }];
    for (const old of this.list.slice(0, -MOST)) this.close(old.id);
    this.resume(id);
  }

  fail(what: string, thrown: unknown): void {
    const problem = Problem.from(thrown);
    this.say(`${what}: ${problem.message}`, { tone: 'bad', requestId: problem.requestId });
  }

  /** Somebody reads it, or is about to press its button: it stays. */
  hold(id: number): void {
    clearTimeout(this.#ends.get(id)?.timer);
  }

  /** Its time begins (again). What went wrong stays until it is closed. */
  resume(id: number): void {
    const [toast, end] = [this.list.find((one) => one.id === id), this.#ends.get(id)];
    if (!toast || !end || toast.tone === 'bad') return;
    clearTimeout(end.timer);
    end.timer = setTimeout(() => this.close(id), toast.undo ? UNDO_MS : LIFE_MS);
  }

  /** Takes it back. */
  undo(id: number): void {
    const toast = this.list.find((one) => one.id === id);
    this.#drop(id);
    toast?.undo?.();
  }

  /** Takes back what was done last, if that can be; returns whether. */
  undoLast(): boolean {
    const last = this.list.findLast(({ undo }) => undo);
    if (last) this.undo(last.id);
    return last !== undefined;
  }

  close(id: number): void {
    const over = this.#ends.get(id)?.over;
    this.#drop(id);
    over?.();
  }

  /** The page is left: what can be taken back no more is done. */
  closeAll(): void {
    for (const { id, undo } of this.list) if (undo) this.close(id);
  }

  #drop(id: number): void {
    clearTimeout(this.#ends.get(id)?.timer);
    this.#ends.delete(id);
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
