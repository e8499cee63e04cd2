import adapter from '@sveltejs/adapter-static';
import { sveltekit } from '@sveltejs/kit/vite';
import { defineConfig } from 'vitest/config';
import { noInlineStyle } from './build/no-inline-style.ts';
import { sourceHash } from './build/source-hash.ts';
import { themes } from './build/themes.ts';

export default defineConfig({
  plugins: [
    noInlineStyle(),
    themes(),
    sveltekit({
      adapter: adapter({ pages: 'dist', assets: 'dist', fallback: 'index.html' }),
      paths: { relative: false },
      // The same sources make the same names, so that a build that changed nothing changes no cache.
      version: { name: sourceHash(), pollInterval: 0 },
    }),
  ],
  worker: { format: 'es' },
  build: { target: 'es2023', cssMinify: 'lightningcss' },
  environments: {
    client: {
      build: {
        rolldownOptions: {
          output: {
            // What many pages share comes in three files, not in one for each module: each costs a slow line a part of a second.
            codeSplitting: {
              groups: [
                { name: 'runtime', test: /node_modules\/(svelte|esm-env|openapi-fetch)\// },
                // What few pages show stays with them.
                { name: 'parts', test: /src\/lib\/ui\/(?!BarChart|TopList|Audit|audit|moments|Field)/ },
                {
                  name: 'data',
                  test: /src\/lib\/(api|session\/(?!Sessions|Installation|Letters|Token|activity|tokens)|live\/(?!affected)|store|format|form)/,
                },
              ],
            },
          },
        },
      },
    },
  },
  // The time bounds a hang: the first test of a file waits for its modules, beside a build that takes every core.
  test: { include: ['src/**/*.test.ts', 'build/**/*.test.ts'], testTimeout: 30_000 },
});
