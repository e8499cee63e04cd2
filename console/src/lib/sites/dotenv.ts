// Reads what people paste from a .env file.

export interface Variable {
  key: string;
  value: string;
}

export interface Wrong {
  line: number;
  message: string;
}

const QUOTED = /^(["'])((?:\\.|(?!\1)[^\\])*)\1\s*(?:#.*)?$/;
/** Begins with a quotation mark, and is no quoted value. */
const OPEN = /^(?!(["'])(?:\\.|(?!\1)[^\\])*\1\s*(?:#.*)?$)["']/;
const KEY = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The variables of a text in the form of a .env file, and the lines that are none. */
export function parseDotenv(text: string): { variables: Variable[]; problems: Wrong[] } {
  const variables = new Map<string, string>();
  const problems: Wrong[] = [];
  const lines = text.split(/\r?\n/);
  for (let index = 0, next = 0; index < lines.length; index = next) {
    next = index + 1;
    let raw = lines[index] ?? '';
    // A quoted value goes on until its quotation mark is closed, as a key in PEM does.
    for (let end = next; OPEN.test(valueOf(raw)) && end < lines.length; end += 1) {
      raw = lines.slice(index, end + 1).join('\n');
      if (!OPEN.test(valueOf(raw))) next = end + 1;
    }
    if (OPEN.test(valueOf(raw))) raw = lines[index] ?? '';
    const line = raw.trim().replace(/^export\s+/, '');
    if (line === '' || line.startsWith('#')) continue;
    const equals = line.indexOf('=');
    const key = line.slice(0, equals).trim();
    if (equals < 0)
      problems.push({ line: index + 1, message: 'there is no “=” between a name and a value.' });
    else if (!KEY.test(key))
      problems.push({ line: index + 1, message: `“${key}” is no name of a variable.` });
    else if (OPEN.test(line.slice(equals + 1).trim()))
      problems.push({ line: index + 1, message: 'a quotation mark is not closed.' });
    else variables.set(key, unquote(line.slice(equals + 1).trim()));
  }
  return { variables: [...variables].map(([key, value]) => ({ key, value })), problems };
}

const valueOf = (line: string) => line.slice(line.indexOf('=') + 1).trim();

function unquote(value: string): string {
  const quoted = QUOTED.exec(value);
  if (quoted?.[1] === '"') {
    const escapes: Record<string, string> = { n: '\n', t: '\t', r: '\r' };
    return (quoted[2] ?? '').replace(/\\(.)/g, (_, c: string) => escapes[c] ?? c);
  }
  if (quoted) return quoted[2] ?? '';
  return value.replace(/\s+#.*$/, '');
}
