// Light, dark, or as the system says. The choice is this browser's; a script before the page's own (build/finish.ts) sets it before the
// first paint.

/** Where it is kept, and what is kept there. */
const KEY = 'theme';
export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

class Choice {
  theme = $state<Theme>('system');

  constructor() {
    this.#show(kept());
    // Chosen in another tab.
    addEventListener('storage', ({ key }) => (key === KEY || key === null) && this.#show(kept()));
  }

  choose(theme: Theme): void {
    try {
      if (theme === 'system') localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      // A browser that keeps nothing shows it until the page is left.
    }
    this.#show(theme);
  }

  #show(theme: Theme): void {
    const { dataset } = document.documentElement;
    if (theme === 'system') delete dataset['theme'];
    else dataset['theme'] = theme;
    this.theme = theme;
  }
}

function kept(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return THEMES.find((one) => one === theme) ?? 'system';
  } catch {
    return 'system';
  }
}

export const choice = new Choice();
