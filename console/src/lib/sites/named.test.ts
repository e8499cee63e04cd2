import { expect, test } from 'vitest';
import { named } from './named.ts';

test('names that could be taken for others are told apart', () => {
  for (const [name, shown] of [
    ['/docs', '/docs'],
    ['/a b "c"', '/a b "c"'],
    ['', '(none)'],
    ['(none)', '"(none)"'],
    [' ', '" "'],
    ['/a ', '"/a "'],
    ['/a  b', '"/a  b"'],
    ['/a\u00a0b', '"/a\\u{a0}b"'],
    ['/\u202egpj.exe', '"/\\u{202e}gpj.exe"'],
    ['/a\tb', '"/a\\u{9}b"'],
    ['/a\\" ', '"/a\\\\\\" "'],
  ] as const)
    expect(named(name), JSON.stringify(name)).toBe(shown);
});
