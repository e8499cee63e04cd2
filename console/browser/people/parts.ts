// The journeys, by what they are about.

import { dropping } from './dropping.ts';
import { finding } from './finding.ts';
import { joining } from './joining.ts';
import { looking } from './looking.ts';
import { many } from './many.ts';
import { paying } from './paying.ts';
import { surroundings } from './surroundings.ts';
import { undoing } from './undoing.ts';
import type { Journey } from './visitor.ts';

export const parts: Record<string, Record<string, Journey>> = {
  dropping,
  undoing,
  paying,
  many,
  surroundings,
  joining,
  finding,
  looking,
};
