export default {
  title: 'Documentation',
  themeConfig: { sidebar: [{ text: 'A', link: '/guide/a' }, { text: 'B', link: '/guide/b' }] },
  vite: { build: { assetsInlineLimit: 0 } },
};
