// Starts our one worker. Browsers that know Trusted Types take its address from a policy only, and the page's policy names this one.

import address from './pack.worker.ts?worker&url';

interface Policy {
  createScriptURL(url: string): string;
}

interface PolicyFactory {
  createPolicy(name: string, rules: Policy): Policy;
}

const policy = (globalThis as { trustedTypes?: PolicyFactory }).trustedTypes?.createPolicy('console-worker', {
  createScriptURL: (url) => {
    if (url !== address) throw new TypeError('There is one worker only.');
    return url;
  },
});

export function startPackWorker(): Worker {
  return new Worker(policy?.createScriptURL(address) ?? address, { type: 'module' });
}
