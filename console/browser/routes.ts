// Every page that there is: the console's, as the folders of its routes say, and those that the servers render.

import { readdirSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { scene } from './scene.ts';

const ROUTES = join(import.meta.dirname, '..', 'src', 'routes');

export interface Page {
  /** A name for a file and for messages. */
  name: string;
  url: string;
  /** Whether somebody is signed in who looks at it. */
  isSignedIn: boolean;
  isConsole: boolean;
}

/** The console's pages: a new one is found by its file, and one whose address has a part that nobody fills in is an error. */
export function consolePages(): Page[] {
  return readdirSync(ROUTES, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('+page.svelte'))
    .map((path) => {
      const parts = dirname(path)
        .split(sep)
        .filter((part) => part !== '.' && !part.startsWith('('));
      const filled = parts.map((part) => (part.startsWith('[') ? parameter(parts[0] ?? '', part) : part));
      const address = `/${filled.join('/')}`;
      const name = parts.length === 0 ? 'home' : parts.map((part) => part.replace(/[[\]]/g, '')).join('.');
      return { name, url: scene.console + address, isSignedIn: true, isConsole: true };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function parameter(folder: string, part: string): string {
  const value = scene.parameters[folder]?.[part.slice(1, -1)];
  if (!value) throw new Error(`the scene names nothing that stands for ${part} in the routes of ${folder}`);
  return value;
}

/** Pages that need no script. */
export function serverPages(): Page[] {
  const pages: [name: string, url: string, isSignedIn?: boolean][] = [
    ['welcome', scene.console],
    ['sign-in', `${scene.console}/sign-in`],
    ['sign-in.refused', `${scene.console}/sign-in?return_to=/gate`],
    ['device', scene.device],
    ['invite', scene.invite],
    ['invite.signed-in', scene.invite, true],
    ['invite.over', `${scene.console}/invites/${'x'.repeat(43)}`],
    ['gate.password', scene.locked],
    ['gate.members', scene.members],
    ['share.password', scene.share],
    ['error.no-site', scene.missing],
    ['error.no-page', `${scene.console}/nothing`],
    ['statistics.public', scene.publicStats],
    ['reference', `${scene.api}/docs`],
  ];
  return pages.map(([name, url, isSignedIn = false]) => ({
    name: `server.${name}`,
    url,
    isSignedIn,
    isConsole: false,
  }));
}
