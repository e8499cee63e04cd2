// write.mjs SITE OUT: packs a folder with the libraries that programs in JavaScript use. Their packages are looked for in $TOOLS.
import { createWriteStream, lstatSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";
import { createGzip } from "node:zlib";

const require = createRequire(join(process.env.TOOLS, "package.json"));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const [site, out] = process.argv.slice(2);
const to = (name) => join(out, name);

const tar = await load("tar");
for (const [name, options] of Object.entries({
  "npm-tar": {},
  "npm-tar-portable": { portable: true },
  "npm-tar-no-pax": { noPax: true },
  "npm-tar-no-mtime": { noMtime: true, portable: true },
})) {
  if (name === "npm-tar-no-pax" && site.endsWith("full")) continue; // it cannot write long names then
  await tar.c({ gzip: true, cwd: site, file: to(`${name}.tar.gz`), ...options }, ["."]);
  await tar.c({ gzip: true, cwd: site, file: to(`${name}-names.tar.gz`), ...options }, readdirSync(site));
}

const { default: tarFs } = await load("tar-fs");
await pipeline(tarFs.pack(site), createGzip(), createWriteStream(to("tar-fs.tar.gz")));
await pipeline(tarFs.pack(site, { entries: readdirSync(site) }), createGzip(), createWriteStream(to("tar-fs-names.tar.gz")));
await pipeline(tarFs.pack(site, { dereference: false, finalize: true }), createGzip(), createWriteStream(to("tar-fs-plain.tar.gz")));

const archiver = await load("archiver");
for (const [name, Archive, options] of [
  ["archiver.tar.gz", archiver.TarArchive, { gzip: true }],
  ["archiver.zip", archiver.ZipArchive, {}],
  ["archiver-store.zip", archiver.ZipArchive, { store: true }],
  ["archiver-zip64.zip", archiver.ZipArchive, { forceZip64: true }],
]) {
  const archive = new Archive(options);
  archive.directory(site, false);
  const written = pipeline(archive, createWriteStream(to(name)));
  await archive.finalize();
  await written;
}

const { default: JsZip } = await load("jszip");
const files = (folder) =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    const stat = lstatSync(path);
    return stat.isDirectory() ? files(path) : stat.isFile() ? [path] : [];
  });
for (const [name, options] of [
  ["jszip.zip", {}],
  ["jszip-deflate.zip", { compression: "DEFLATE" }],
  ["jszip-stream.zip", { compression: "DEFLATE", streamFiles: true }],
  ["jszip-unix.zip", { platform: "UNIX" }],
]) {
  const zip = new JsZip();
  for (const path of files(site)) zip.file(relative(site, path), readFileSync(path));
  writeFileSync(to(name), await zip.generateAsync({ type: "nodebuffer", ...options }));
}
