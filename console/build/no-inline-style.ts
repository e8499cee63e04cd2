// SvelteKit's announcer of page changes hides itself by a style attribute, which the policy does not allow: a class takes its place.

import type { Plugin } from 'vite';

const STYLED = /(id="svelte-announcer"[^>]*?)\s+style="[^"]*"/g;

export function noInlineStyle(): Plugin {
  return {
    name: 'no-inline-style',
    enforce: 'pre',
    transform(code) {
      return code.includes('svelte-announcer')
        ? code.replace(STYLED, '$1 class="visually-hidden"')
        : undefined;
    },
  };
}
