// What a script has to know of the world that it looks at. `tests/console/scene.rs` makes it, and describes it in SVC_SCENE.

export interface Scene {
  /** The origins of the console, of the API and of the gateway. */
  console: string;
  api: string;
  ai: string;
  /** The keys of the certificates that are trusted, as Chromium wants them named. */
  keys: string;
  login: string;
  secret: string;
  /** Sites: open, behind a password, for members, and one that is not there. */
  site: string;
  locked: string;
  members: string;
  missing: string;
  /** A share behind a password, an invitation, statistics for everybody, and a device that waits to be let in. */
  share: string;
  invite: string;
  publicStats: string;
  device: string;
  /** The words that stand for the parts of addresses that are in brackets, by the folder of routes. */
  parameters: Record<string, Record<string, string>>;
  /** The name that tries to become markup. */
  attack: string;
}

export const scene = JSON.parse(process.env['SVC_SCENE'] ?? '{}') as Scene;
