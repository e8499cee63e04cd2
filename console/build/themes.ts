// The colours of the servers' pages follow the system alone. The console lets a person choose: the colours of the dark theme stand once more
// under the choice of it, and those of the system's theme give way to the choice of the light one.

import type { Plugin } from 'vite';

const DARK = /@media \(prefers-color-scheme: dark\) \{\s*:root \{([^}]*)\}\s*\}/;

export function themes(): Plugin {
  return {
    name: 'themes',
    enforce: 'pre',
    transform(code, id) {
      return id.split('?')[0]?.endsWith('/tokens.css') ? chosen(code) : undefined;
    },
  };
}

/** The style with colours that can be chosen. */
export function chosen(style: string): string {
  const colours = DARK.exec(style)?.[1];
  if (!colours) throw new Error('tokens.css has no colours for the dark theme where they were expected');
  return style.replace(
    DARK,
    `@media (prefers-color-scheme: dark) { :root:not([data-theme='light']) {${colours}} }
:root[data-theme='dark'] {${colours}}
:root[data-theme='light'] { color-scheme: light }
:root[data-theme='dark'] { color-scheme: dark }`,
  );
}
