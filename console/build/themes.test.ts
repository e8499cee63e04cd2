import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { chosen } from './themes.ts';

const TOKENS = join(import.meta.dirname, '..', '..', 'common', 'templates', 'tokens.css');

test('the colours of a chosen theme are those that the system would choose', () => {
  const style = chosen(readFileSync(TOKENS, 'utf8'));
  const rule = (selector: string) => style.split(`${selector} {`)[1]?.split('}')[0];
  expect(rule(":root[data-theme='dark']")).toContain('--ink:');
  expect(rule(":root[data-theme='dark']")).toBe(rule(":root:not([data-theme='light'])"));
});

test('a style without dark colours is no build', () => {
  expect(() => chosen(':root { --ink: black }')).toThrow('dark');
});
