import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inWordsOfForms } from './fields.ts';

test('errors name fields as forms do', () => {
  for (const [said, read] of [
    ['display_name must be 1 to 100 characters.', 'The display name must be 1 to 100 characters.'],
    ['`display_name` must be a string.', 'The display name must be a string.'],
    ['`address.city`: value must be shorter.', 'The value must be shorter.'],
    ['`address.city`: trailing text.', 'The city: trailing text.'],
    ['`name` is missing.', 'The name is missing.'],
    ['domain is too long: at most 253 characters.', 'The hostname is too long: at most 253 characters.'],
    // No field begins these.
    ['The body is not valid JSON.', 'The body is not valid JSON.'],
    ['ada must be an owner.', 'ada must be an owner.'],
    ['name-of-a-site is taken.', 'name-of-a-site is taken.'],
  ] as const)
    expect(inWordsOfForms(said)).toBe(read);
});

test('every field whose rule the API can say has a label', () => {
  const folder = join(import.meta.dirname, '../../../../common/domain/src');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const texts = files
    .filter((path) => path.endsWith('.rs'))
    .map((path) => readFileSync(join(folder, path), 'utf8'));
  const messages = texts.flatMap((text) => [
    ...text.matchAll(/#\[error\("([a-z_]+ (?:must|is|has) [^"]*)"/g),
  ]);
  expect(messages.length).toBeGreaterThan(15);
  for (const [, message = ''] of messages) expect(inWordsOfForms(message)).toMatch(/^The /);
});
