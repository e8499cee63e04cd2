// One clock for all relative times of the page; it ticks while somebody looks.

const TICK_MS = 15_000;

class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (document.visibilityState === 'visible') this.now = Date.now();
    }, TICK_MS);
    document.addEventListener('visibilitychange', () => (this.now = Date.now()));
  }
}

export const clock = new Clock();
