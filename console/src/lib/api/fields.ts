// The API's names of fields in the words of the forms that ask for them.

/** The label of each field that a form of the console sends, as it stands within a sentence. */
const LABELS: Record<string, string> = {
  branch: 'branch',
  city: 'city',
  country: 'country',
  directory: 'folder',
  display_name: 'display name',
  domain: 'hostname',
  email: 'email',
  from: 'first day',
  key: 'name of the variable',
  label: 'label',
  lines: 'street and number',
  name: 'name',
  password: 'password',
  postcode: 'postcode',
  repo: 'repository',
  sha: 'commit',
  to: 'last day',
  ttl: 'number of days',
  value: 'value',
  vat_number: 'VAT number',
};

/** A sentence of the API that begins with a field, as a person reads it who filled in a form. */
export function inWordsOfForms(message: string): string {
  const begins =
    /^(?:`(?:[\w[\]]+\.)*(\w+)(?:\[\d+\])?`|([a-z]\w*))(?: (?=must|is|has|may|needs)|: )(?:(\w+) (?=must|is|has))?/;
  const [all, quoted, bare, again] = begins.exec(message) ?? [];
  const label = LABELS[again ?? ''] ?? LABELS[quoted ?? bare ?? ''];
  if (all === undefined || label === undefined) return message;
  const rest = message.slice(all.length);
  // What follows a colon and names no field is a sentence of its own.
  const isSentence = all.endsWith(': ') && again === undefined;
  return `The ${label}${isSentence ? ':' : ''} ${rest}`;
}
