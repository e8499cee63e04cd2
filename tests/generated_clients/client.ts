// Publishes a folder, shares a page and reads statistics with types that were generated into `generated.d.ts`.

import { gzipSync } from 'node:zlib';
import createClient from 'openapi-fetch';
import type { components, paths } from './generated.d.ts';

/** A tarball of one file. */
function tarball(name: string, text: string): Uint8Array<ArrayBuffer> {
  const body = Buffer.from(text);
  const head = Buffer.alloc(512);
  head.write(name, 0);
  head.write('0000644\0', 100);
  head.write(body.length.toString(8).padStart(11, '0') + '\0', 124);
  head.write('        0', 148);
  head.write('ustar\x0000', 257);
  const sum = head.reduce((all, byte) => all + byte, 0);
  head.write(sum.toString(8).padStart(6, '0') + '\0 ', 148);
  const padding = Buffer.alloc((512 - (body.length % 512)) % 512);
  return new Uint8Array(gzipSync(Buffer.concat([head, body, padding, Buffer.alloc(1024)])));
}

function is(holds: unknown, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

const client = createClient<paths>({
  baseUrl: process.env['SVC_API'] ?? '',
  headers: { Authorization: `Bearer ${process.env['SVC_TOKEN']}` },
});
const name = 'from-typescript';
/** Bytes are sent as they are. The description says `string`, as all binary bodies are described. */
const bytes = (body: Uint8Array<ArrayBuffer>) => ({
  body: body as unknown as string,
  bodySerializer: (body: unknown) => body as BodyInit,
  headers: { 'Content-Type': 'application/gzip' },
});

const made = await client.POST('/projects', { body: { name } });
is(made.data?.name === name, made);
const uploaded = await client.POST('/projects/{name}/deployments', {
  params: { path: { name } },
  ...bytes(tarball('index.html', 'from TypeScript')),
});
is(uploaded.data, uploaded);
const share = await client.POST('/shares', {
  params: { query: { ttl: 1 } },
  ...bytes(tarball('index.html', 'shared from TypeScript')),
});
is(share.data?.expires_at, share);
const stats = await client.GET('/projects/{name}/stats', { params: { path: { name } } });
is(stats.data?.project === name, stats);
const refused = await client.POST('/projects', { body: { name } });
// Where an edge answers for admin, it may do so in text.
const code: components['schemas']['ErrorCode'] | undefined =
  typeof refused.error === 'object' ? refused.error.error.code : undefined;
is(code === 'name_taken', refused);
console.log(JSON.stringify({ site: uploaded.data.url, share: share.data.url }));
