// What wrangler makes of rule files: reads a JSON list of {redirects?, headers?, requests} from its input and writes one of
// {redirects, headers, answers}. The code that decides is wrangler's own, cut out of its bundle in $TOOLS/wrangler by the names of
// its sources, which the bundle keeps as comments.
import { readFileSync } from "node:fs";
import path3 from "node:path";
import { join } from "node:path";

const bundle = readFileSync(join(process.env.TOOLS, "wrangler/cli.js"), "utf8");
const cut = (from, to) => {
  const start = bundle.indexOf(`\n${from}`);
  const end = bundle.indexOf(`\n${to}`, start + 1);
  if (start < 0 || end < 0) throw new Error(`wrangler's bundle has changed: ${from}`);
  return bundle.slice(start, end);
};
const sources = [
  cut("// ../workers-shared/utils/configuration/constants.ts", "// ../workers-shared/index.ts"),
  cut("function constructRedirects({", "// ../pages-shared/environment-polyfills/index.ts"),
  cut("// ../workers-shared/utils/responses.ts", "// src/miniflare-cli/assets.ts"),
];
// The helpers of the bundler, as far as these parts use them.
const prelude = `
  const __name = (value) => value;
  const __esm = (module, done) => () => { if (!done) { done = true; Object.values(module)[0](); } };
  const __export = () => {};
  const init_import_meta_url = () => {};
`;
const wrangler = new Function(
  "path3",
  `${prelude}${sources.join("\n")}
  init_parseHeaders(); init_parseRedirects(); init_createMetadataObject(); init_handler3();
  return { parseHeaders, parseRedirects, createMetadataObject, generateHandler };`,
)(path3);

/** Stops the handler once it looks for a file: no rule redirected. */
class Looked extends Error {}

const handle = (request, metadata, findAssetEntryForPath) =>
  wrangler.generateHandler({
    request,
    metadata,
    logError: (error) => {
      throw error;
    },
    findAssetEntryForPath,
    getAssetKey: (path) => path,
    negotiateContent: () => ({ encoding: null }),
    fetchAsset: async (path) => ({ body: path, contentType: "text/plain" }),
  });

const answer = async (url, metadata) => {
  const request = new Request(url);
  const result = {};
  try {
    const response = await handle(request, { redirects: metadata.redirects }, async (path) => {
      const looked = new Looked();
      looked.path = path;
      throw looked;
    });
    result.redirect = [response.status, response.headers.get("location")];
  } catch (thrown) {
    if (!(thrown instanceof Looked)) throw thrown;
    const { pathname } = new URL(url);
    let asked = pathname;
    try {
      asked = decodeURIComponent(pathname);
    } catch {
      // It is looked for as it is.
    }
    // A folder is looked for by its index.html.
    if (asked.endsWith("/")) asked += "index.html";
    if (thrown.path !== asked) result.rewrite = thrown.path;
  }
  if (metadata.headers) {
    // Of a plain file, in place of whatever the rules make of the path.
    const found = async (path) => (path.endsWith("/index.html") && !new URL(url).pathname.endsWith("/") ? null : path);
    try {
      const bare = Object.fromEntries((await handle(request, {}, found)).headers);
      const full = Object.fromEntries((await handle(request, { headers: metadata.headers }, found)).headers);
      const names = new Set([...Object.keys(bare), ...Object.keys(full)]);
      const changed = [...names].filter((name) => bare[name] !== full[name]);
      result.headers = Object.fromEntries(changed.map((name) => [name, full[name] ?? null]));
    } catch (error) {
      result.headers = { error: error.constructor.name };
    }
  }
  return result;
};

const judge = async ({ redirects, headers, requests }) => {
  const text = (base64) => Buffer.from(base64, "base64").toString("utf8");
  const parsed = {
    redirects: redirects === undefined ? undefined : wrangler.parseRedirects(text(redirects)),
    headers: headers === undefined ? undefined : wrangler.parseHeaders(text(headers)),
  };
  const metadata = wrangler.createMetadataObject(parsed);
  const answers = [];
  for (const url of requests) answers.push(await answer(url, metadata));
  const rules = parsed.redirects?.rules.map(({ lineNumber }) => lineNumber) ?? [];
  return { redirects: rules, headers: parsed.headers?.rules.map(({ path }) => path) ?? [], answers };
};

const cases = JSON.parse(readFileSync(0, "utf8"));
const results = [];
for (const each of cases) results.push(await judge(each));
process.stdout.write(JSON.stringify(results));
