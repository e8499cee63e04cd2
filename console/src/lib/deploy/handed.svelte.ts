// What was dropped on a page, on its way to the page that publishes it.

/** A drop, taken while it was handled: later the browser forgets what was in it. */
export interface Dropped {
  entries: FileSystemEntry[];
  /** For a browser that knows no entries: folders are not among them. */
  files: File[];
}

class Handed {
  /** Whether files are held over the page. */
  isOver = $state(false);
  /** What waits to be taken. */
  waiting = $state.raw<Dropped | undefined>();
}

export const handed = new Handed();

/** Whether a drag brings files, and not a link or some text. */
export const bringsFiles = (transfer: DataTransfer | null): transfer is DataTransfer =>
  transfer !== null && transfer.types.includes('Files');

/** The content of a drop. Has to be called while the drop is handled. */
export function grab(transfer: DataTransfer): Dropped {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  return { entries: entries.filter((entry) => entry !== null), files: [...transfer.files] };
}
