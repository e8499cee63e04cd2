// What will surprise a person once it is published, though nothing forbids it.

import type { Selection } from './rules.ts';

const PAGE = 'index.html';

/** Warnings about what was chosen, as sentences. */
export function warnings({ files, archive }: Selection): string[] {
  // What an archive holds is not known here.
  if (archive || files.length === 0 || files.some(({ path }) => path === PAGE)) return [];
  const [nested] = files.map(({ path }) => path).filter((path) => path.endsWith(`/${PAGE}`));
  if (nested) {
    const folder = nested.slice(0, -PAGE.length);
    return [
      `There is no ${PAGE} at the top, so that / will be a 404. One is in ${folder}: is that the folder?`,
    ];
  }
  const [page] = files.filter(({ path }) => /\.html?$/i.test(path));
  return [
    page
      ? `There is no ${PAGE} at the top: / will be a 404, and the page will be at /${page.path}.`
      : `There is no ${PAGE}: / will be a 404.`,
  ];
}

/** A name for a site of what was chosen: the folder's, or the file's, as far as it can be one. */
export function proposedName(paths: string[]): string {
  const [first = ''] = paths;
  const isFolder = first.includes('/') && paths.every((path) => path.split('/')[0] === first.split('/')[0]);
  if (!isFolder && paths.length !== 1) return '';
  const name = (first.split('/')[0] ?? '').replace(/\.(zip|tar\.gz|tgz|tar\.zst|tzst|html?)$/i, '');
  const proposed = name
    .normalize('NFKD')
    .replace(/\p{Mark}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40)
    .replace(/-+$/, '');
  // What a build calls its folder is no name for what is in it.
  const isCommon = ['public', 'dist', 'build', 'out', 'site', 'html', 'www', 'index', 'output'].includes(
    proposed,
  );
  return isCommon || proposed.length < 3 ? '' : proposed;
}
