import { expect, test } from 'vitest';
import { archiveOf, hasFiles } from './deployment.ts';

test('what has files can be downloaded', () => {
  const states = (['live', 'superseded', 'uploading', 'failed'] as const).filter((status) =>
    hasFiles({ status }),
  );
  expect(states).toEqual(['live', 'superseded']);
});

test('an archive is at the address of its deployment', () => {
  expect(archiveOf('docs', { id: 'dep_1' })).toBe('/api/projects/docs/deployments/dep_1/archive');
  expect(archiveOf('a/b', { id: 'c?d' })).toBe('/api/projects/a%2Fb/deployments/c%3Fd/archive');
});
