// Keys that work everywhere on the page, except while somebody types.

const LEADER = 'g';
/** The second key of a pair has to follow within this time. */
const PAIR_MS = 1_000;
const OFF = 'single-keys-off';

/** The addresses that the second keys of pairs lead to. */
export const PLACES: Record<string, { href: string; label: string }> = {
  s: { href: '/', label: 'Sites' },
  a: { href: '/account', label: 'Account' },
  h: { href: '/shares', label: 'Shares' },
  i: { href: '/ai', label: 'AI gateway' },
  b: { href: '/billing', label: 'Billing' },
  d: { href: '/docs', label: 'API reference' },
  n: { href: '/new', label: 'New site' },
};

/** The actions of keys on the page. */
export interface Deeds {
  palette: () => void;
  list: () => void;
  filter: () => void;
  go: (href: string) => void;
}

class Keys {
  /** Whether keys without Ctrl or ⌘ do anything: who speaks to the machine, or has a tremor, can turn them off. */
  single = $state(localStorage.getItem(OFF) === null);
  #ledAt = -Infinity;

  turn(on: boolean): void {
    this.single = on;
    if (on) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, '1');
  }

  take(event: KeyboardEvent, deeds: Deeds): void {
    if (event.defaultPrevented || event.isComposing || isTyping(event.target)) return;
    // A dialog has keys of its own, and lies above everything else.
    if (document.querySelector('dialog[open]')) return;
    if ((event.metaKey || event.ctrlKey) && !event.altKey && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      deeds.palette();
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || !this.single) return;
    const isPair = event.timeStamp - this.#ledAt < PAIR_MS;
    this.#ledAt = event.key === LEADER && !isPair ? event.timeStamp : -Infinity;
    const place = isPair ? PLACES[event.key] : undefined;
    if (place) deeds.go(place.href);
    else if (event.key === '/') deeds.filter();
    else if (event.key === '?') deeds.list();
    else return;
    event.preventDefault();
  }
}

export const keys = new Keys();

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable || target.matches('input:not([type=radio], [type=checkbox]), textarea, select')
  );
}
