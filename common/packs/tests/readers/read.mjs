// Reads tar archives with node-tar, as read.py does with Python. Its package is looked for in $TOOLS.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join, posix } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.env.TOOLS, "package.json"));
const { default: tar } = await import(pathToFileURL(require.resolve("tar")));
const clean = (path) => posix.normalize(path).replace(/\/$/, "");

const read = (data) =>
  new Promise((resolve, reject) => {
    const files = new Map();
    const names = [];
    const links = [];
    const parser = new tar.Parser();
    parser.on("entry", (entry) => {
      const hash = createHash("sha256");
      names.push(entry.path);
      entry.on("data", (chunk) => hash.update(chunk));
      entry.on("end", () => {
        if (["File", "OldFile", "ContiguousFile"].includes(entry.type)) files.set(clean(entry.path), hash.digest("hex"));
        else if (entry.type === "SymbolicLink") links.push(clean(entry.path));
        else if (entry.type === "Link") {
          names.push(entry.linkpath);
          const target = files.get(clean(entry.linkpath));
          if (target === undefined) reject(new Error("a link to nothing"));
          files.set(clean(entry.path), target);
        }
      });
    });
    parser.on("error", reject);
    parser.on("end", () => resolve({ files: Object.fromEntries(files), names, links }));
    parser.end(data);
  });

let rest = Buffer.alloc(0);
let queue = Promise.resolve();
process.stdin.on("data", (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  for (;;) {
    const newline = rest.indexOf(10);
    if (newline < 0) return;
    const length = Number(rest.subarray(0, newline).toString().split(" ")[1]);
    if (rest.length < newline + 1 + length) return;
    const data = rest.subarray(newline + 1, newline + 1 + length);
    rest = rest.subarray(newline + 1 + length);
    queue = queue.then(async () => {
      const answer = await read(Buffer.from(data)).catch((error) => ({ error: String(error) }));
      process.stdout.write(`${JSON.stringify(answer)}\n`);
    });
  }
});
