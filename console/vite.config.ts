import adapter from '@sveltejs/adapter-static';
import { sveltekit } from '@sveltejs/kit/vite';
import { defineConfig } from 'vitest/config';
import { noInlineStyle } from './build/no-inline-style.ts';
import { sourceHash } from './build/source-hash.ts';

export default defineConfig({
  plugins: [
    noInlineStyle(),
    sveltekit({
      adapter: adapter({ pages: 'dist', assets: 'dist', fallback: 'index.html' }),
      paths: { relative: false },
      // The same sources make the same names, so that a build that changed nothing changes no cache.
      version: { name: sourceHash(), pollInterval: 0 },
    }),
  ],
  worker: { format: 'es' },
  build: { target: 'es2023', cssMinify: 'lightningcss' },
  test: { include: ['src/**/*.test.ts', 'build/**/*.test.ts'] },
});
