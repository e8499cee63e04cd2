// What a form does when it is sent: once at a time, with its failure beside it and all that was typed left as it is.

import { Problem } from '#lib/api/problem.ts';

export class Form {
  /** Whether it was sent and has not been answered. */
  busy = $state(false);
  /** The reason for which it failed the last time. */
  problem = $state.raw<Problem | undefined>();
  #send: () => Promise<void>;

  constructor(send: () => Promise<void>) {
    this.#send = send;
  }

  /** Handles the form's `submit`. */
  submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    await this.run();
  };

  /** Sends it; returns whether that succeeded. */
  async run(): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.problem = undefined;
    try {
      await this.#send();
      return true;
    } catch (thrown) {
      this.problem = Problem.from(thrown);
      return false;
    } finally {
      this.busy = false;
    }
  }
}
