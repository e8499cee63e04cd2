/** What a list calls nothing. */
const NOTHING = '(none)';

/** Characters that cannot be seen, or that change how others are seen: all but the plain space. */
const UNSEEN = /(?! )[\p{C}\p{Z}]/gu;

/** A name as a list shows it: nothing has a word, and blanks that could be overlooked stand within quotes. */
export function named(name: string): string {
  if (name === '') return NOTHING;
  const isPlain = name !== NOTHING && name.trim() === name && !name.includes('  ') && name.search(UNSEEN) < 0;
  if (isPlain) return name;
  const escape = (character: string) => `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return `"${name.replaceAll(/["\\]/g, '\\$&').replaceAll(UNSEEN, escape)}"`;
}
