// Lists that are shown whole: the API gives them by pages.

interface Page {
  next_cursor?: string | null | undefined;
}

/** All pages of a list, in their order. */
export async function whole<P extends Page>(ask: (query: { cursor?: string }) => Promise<P>): Promise<P[]> {
  const pages: P[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await ask(cursor ? { cursor } : {});
    pages.push(page);
    cursor = page.next_cursor;
  } while (cursor);
  return pages;
}
