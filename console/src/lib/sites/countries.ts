// Countries by their codes, in the reader's language.

const names = new Intl.DisplayNames(undefined, { type: 'region', fallback: 'code' });

export function country(code: string): string {
  return code === 'XX' ? 'Unknown' : (names.of(code) ?? code);
}
