// The one question before what cannot be undone. Who asks names what is lost; the page has one dialog for all of them.

export interface Question {
  /** The act and its object: "Revoke the token “Laptop”?" */
  title: string;
  /** What will be gone, and what stays, in sentences. */
  lost: string[];
  /** The word on the button that does it. */
  action: string;
  /** The word on the button that does not. */
  keep?: string;
  /** The name to be typed, of what others see: a site, a domain, an organization. */
  name?: string;
  /** Amounts of money, each with what it is for. */
  sums?: [what: string, sum: string][];
  /** Whether it destroys something; a plan that is changed is not. */
  isHarmless?: boolean;
  run: () => Promise<unknown>;
}

class Asking {
  question = $state.raw<Question | undefined>();
}

export const asking = new Asking();

export function ask(question: Question): void {
  asking.question = question;
}
