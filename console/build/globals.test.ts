import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compile } from 'svelte/compiler';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { GLOBALS } from './globals.ts';

const SOURCES = join(import.meta.dirname, '..', 'src');
/** What the compiler takes away, and what every engine has. */
const LANGUAGE = new Set(['undefined', 'arguments', 'NaN', 'Infinity', 'globalThis']);

/** The names that a script takes from the browser: those it uses and does not declare. */
function taken(script: string): Set<string> {
  const [used, declared] = [new Set<string>(), new Set<string>()];
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) {
      const above = node.parent;
      const isMember = ts.isPropertyAccessExpression(above) && above.name === node;
      const isKey =
        (ts.isPropertyAssignment(above) ||
          ts.isMethodDeclaration(above) ||
          ts.isPropertyDeclaration(above) ||
          ts.isAccessor(above)) &&
        above.name === node;
      const isDeclared =
        (ts.isVariableDeclaration(above) ||
          ts.isParameter(above) ||
          ts.isBindingElement(above) ||
          ts.isFunctionDeclaration(above) ||
          ts.isFunctionExpression(above) ||
          ts.isClassDeclaration(above) ||
          ts.isClassExpression(above) ||
          ts.isImportSpecifier(above) ||
          ts.isImportClause(above) ||
          ts.isNamespaceImport(above)) &&
        above.name === node;
      const isName = ts.isBindingElement(above) && above.propertyName === node;
      const isWord =
        ts.isLabeledStatement(above) ||
        ts.isBreakOrContinueStatement(above) ||
        ts.isMetaProperty(above) ||
        ts.isExportSpecifier(above) ||
        ts.isImportSpecifier(above);
      if (isDeclared) declared.add(node.text);
      else if (!isMember && !isKey && !isName && !isWord) used.add(node.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('script.js', script, ts.ScriptTarget.Latest, true));
  return used.difference(declared);
}

function scriptOf(path: string): string {
  const source = readFileSync(join(SOURCES, path), 'utf8');
  if (path.endsWith('.svelte')) return compile(source, { filename: path, generate: 'client' }).js.code;
  const options = {
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.ESNext,
    verbatimModuleSyntax: false,
  };
  return ts.transpileModule(source, { compilerOptions: options }).outputText;
}

// Every component is compiled for it.
const PATIENCE_MS = 60_000;

test('only what every browser has is used', { timeout: PATIENCE_MS }, () => {
  const used = new Map<string, string>();
  for (const path of readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(ts|svelte)$/.test(path) || /\.test\.ts$|schema\.d\.ts$/.test(path)) continue;
    for (const name of taken(scriptOf(path)))
      if (!name.startsWith('$') && !LANGUAGE.has(name)) used.set(name, path);
  }
  const known = new Set(GLOBALS);
  expect(Object.fromEntries([...used].filter(([name]) => !known.has(name)))).toEqual({});
  // What is used no longer is not vouched for.
  expect(GLOBALS.filter((name) => !used.has(name))).toEqual([]);
});

test('a name of one browser alone is found', () => {
  expect(
    taken('if (entry instanceof FileSystemFileEntry) entry.file(a => a);').has('FileSystemFileEntry'),
  ).toBe(true);
  expect(taken('const Local = 1; x.Local; Local;').has('Local')).toBe(false);
});
