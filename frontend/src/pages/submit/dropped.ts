/** Files out of what was dropped on a page: folders are read to their ends. Knows no form. */

export interface Picked {
  /** relative to the folder that was dropped */
  path: string;
  file: File;
}

/** A path without the name of the folder that was chosen. */
export const inFolder = (path: string): string => path.split("/").slice(path.includes("/") ? 1 : 0).join("/");

/** All files of a drop: those of one folder relative to it, else relative to where they lay. */
export async function filesOf(transfer: DataTransfer): Promise<Picked[]> {
  const roots = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const all = (await Promise.all(roots.map((root) => walk(root, root.name)))).flat();
  return roots.length === 1 && roots[0]?.isDirectory === true ? all.map((one) => ({ ...one, path: inFolder(one.path) })) : all;
}

async function walk(entry: FileSystemEntry, path: string): Promise<Picked[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Picked[] = [];
  // A reader gives a hundred entries at a time.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) {
      return found;
    }
    for (const one of some) {
      found.push(...(await walk(one, `${path}/${one.name}`)));
    }
  }
}
