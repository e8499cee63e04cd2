// Keeps the scene of the tests open, for scripts that are run by hand: SVC_HELD names the file into which its description is written.
// It ends when that file is removed.

import { existsSync, writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

const file = process.env['SVC_HELD'] ?? 'scene.json';
writeFileSync(file, process.env['SVC_SCENE'] ?? '');
while (existsSync(file)) await setTimeout(500);
