// The last step of the build: makes the page free of inline scripts, compresses every file, and holds the budgets.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const ROOT = join(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
/** Compressed bytes of the first load, and of what a single page adds to it. */
const BUDGETS = { script: 60_000, style: 15_000, chunk: 25_000 };
/** SvelteKit's own parts of the build: the nodes, of which each has a page's source, and what Vite made of them. */
const NODES = '.svelte-kit/generated/build/client-optimized/nodes';
const MANIFEST = '.svelte-kit/output/client/.vite/manifest.json';
interface Chunk {
  file: string;
  imports?: string[];
  css?: string[];
}
/** The answers that every page asks the API for, and those of the home page beside them, exactly as they do (`me`, `orgs`, `siteList`). */
const CALLS = ['/api/me', '/api/orgs'];
const HOME_CALL = '/api/projects?all=true&summary=true';
const HOME_SCRIPT = `if (location.pathname === '/') {
  const call = { rel: 'preload', as: 'fetch', crossOrigin: 'anonymous', href: '${HOME_CALL}' };
  document.head.append(Object.assign(document.createElement('link'), call));
}`;
/** A theme that was chosen stands before anything is drawn; the page waits for this as it does for its styles, and then has it at hand. */
const THEME_SCRIPT = `try {
  const theme = localStorage.getItem('theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch {}
`;
/** Loaded on the pages with charts alone. */
const CHARTS = 'uPlot';

const sizes = new Map<string, number>();
preloadHome();
moveStartScript();
addThemeScript();
forbidInlineStyles();
for (const path of files(DIST)) {
  compress(path);
}
checkBudgets();

/**
 * The answers that every page needs are asked for before its scripts are here, and those of the home page beside the first scripts:
 * each further step would cost a slow line its way there and back.
 */
function preloadHome() {
  const page = join(DIST, 'index.html');
  const html = readFileSync(page, 'utf8');
  const calls = CALLS.map((path) => `<link rel="preload" href="${path}" as="fetch" crossorigin="anonymous">`);
  const sources = ['+error.svelte', '(app)/+layout.svelte', '(app)/+page.svelte'];
  const links = [...new Set(sources.flatMap(partsOf))]
    .filter((file) => !html.includes(file))
    .map((file) =>
      file.endsWith('.css')
        ? `<link rel="stylesheet" href="/${file}">`
        : `<link rel="modulepreload" href="/${file}">`,
    );
  // After the styles of all pages, as when a page brings its own.
  writeFileSync(
    page,
    html.replace('  </head>', [...calls, ...links, '</head>'].map((line) => `  ${line}`).join('\n')),
  );
}

/** The files of a page's own script: itself, what it imports, and their styles. */
function partsOf(source: string): string[] {
  const of = (name: string) => readFileSync(join(ROOT, NODES, name), 'utf8');
  const node = readdirSync(join(ROOT, NODES)).find((name) => of(name).includes(`/src/routes/${source}"`));
  if (!node) throw new Error(`${source} is in no node of the build`);
  const chunks = JSON.parse(readFileSync(join(ROOT, MANIFEST), 'utf8')) as Record<string, Chunk>;
  const found: string[] = [];
  const visit = (key: string) => {
    const chunk = chunks[key];
    if (!chunk || found.includes(chunk.file)) return;
    found.push(chunk.file, ...(chunk.css ?? []));
    chunk.imports?.forEach(visit);
  };
  visit(`${NODES}/${node}`);
  return found;
}

/**
 * SvelteKit starts the page by an inline script, which the policy does not allow. It becomes a file, under the name of its hash;
 * `document.currentScript` works in it as it did inline, because it stands at the same place.
 */
function moveStartScript() {
  const page = join(DIST, 'index.html');
  const html = readFileSync(page, 'utf8');
  const inline = /<script>([\s\S]*?)<\/script>/g;
  const [script, ...more] = [...html.matchAll(inline)];
  if (!script?.[1] || more.length > 0) {
    throw new Error(`index.html has ${more.length + (script ? 1 : 0)} inline scripts; one is expected`);
  }
  const name = writeScript('boot', `${HOME_SCRIPT}\n${script[1].trim()}\n`);
  const finished = html.replace(script[0], `<script src="${name}"></script>`);
  if (/<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=/i.test(finished)) {
    throw new Error('index.html has something inline that the policy does not allow');
  }
  writeFileSync(page, finished);
}

/** Before the styles: after them, it would wait for them. */
function addThemeScript() {
  const page = join(DIST, 'index.html');
  const html = readFileSync(page, 'utf8');
  const [title, ...more] = html.match(/<title>.*<\/title>/g) ?? [];
  if (!title || more.length > 0) throw new Error('index.html has not exactly one title');
  writeFileSync(
    page,
    html.replace(title, `${title}\n    <script src="${writeScript('theme', THEME_SCRIPT)}"></script>`),
  );
}

/** Writes a script that the page starts with, under the name of its hash. */
function writeScript(name: string, script: string): string {
  const hash = createHash('sha256').update(script).digest('base64url').slice(0, 8);
  const path = `/_app/immutable/entry/${name}.${hash}.js`;
  writeFileSync(join(DIST, path), script);
  return path;
}

/** Markup in scripts is markup on the page: a style attribute there would be refused by the browser, silently. */
function forbidInlineStyles() {
  for (const path of files(DIST).filter((path) => path.endsWith('.js'))) {
    const found = /<\w+[^<>]*\sstyle="[^"]*"/.exec(readFileSync(path, 'utf8'));
    if (found)
      throw new Error(
        `${basename(path)} has an inline style, which the policy does not allow: ${found[0].slice(0, 120)}`,
      );
  }
}

function compress(path: string) {
  const plain = readFileSync(path);
  const options = {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length },
  };
  const compressed = brotliCompressSync(plain, options);
  sizes.set(path, compressed.length);
  writeFileSync(`${path}.br`, compressed);
}

function checkBudgets() {
  const html = readFileSync(join(DIST, 'index.html'), 'utf8');
  const first = [...sizes].filter(([path]) => html.includes(basename(path)));
  const total = (end: string) =>
    first.filter(([path]) => path.endsWith(end)).reduce((sum, [, size]) => sum + size, 0);
  const found = { script: total('.js'), style: total('.css') };
  const problems: string[] = [];
  for (const kind of ['script', 'style'] as const) {
    console.log(`first load: ${found[kind]} bytes of compressed ${kind}, ${BUDGETS[kind]} allowed`);
    if (found[kind] > BUDGETS[kind]) problems.push(`the first load has ${found[kind]} bytes of ${kind}`);
  }
  for (const [path, size] of sizes) {
    if (size > BUDGETS.chunk && path.endsWith('.js') && !readFileSync(path, 'utf8').includes(CHARTS)) {
      problems.push(`${basename(path)} has ${size} compressed bytes, ${BUDGETS.chunk} are allowed`);
    }
  }
  if (problems.length > 0) throw new Error(problems.join('; '));
}

function files(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.br'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
