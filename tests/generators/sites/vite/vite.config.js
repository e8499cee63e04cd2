// Nothing is inlined: each asset has an address.
export default { build: { assetsInlineLimit: 0 } };
