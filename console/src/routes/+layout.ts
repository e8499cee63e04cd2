// A page of its own in the browser: the server answers every address with the same file.
export const ssr = false;
