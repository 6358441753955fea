// Files that are dropped on the page or chosen: folders are gone through, and everything is read as text.

const MOST_BYTES = 16 * 1024 * 1024 - 64 * 1024; // what the server takes, less what goes around it
const MOST_FILES = 500;
const WANTED = /\.(ya?ml|json)$/i;

/** The files of a drop, those of folders included: [{name, text}]. Raises Error with a sentence. */
export async function droppedFiles(transfer) {
  const entries = [...transfer.items].map(item => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return readFiles([...transfer.files]);
  const files = [];
  for (const entry of entries) await gather(entry, files);
  return readFiles(files);
}

async function gather(entry, files) {
  if (files.length > MOST_FILES) return;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    Object.defineProperty(file, "path", {value: entry.fullPath.replace(/^\//, "")});
    files.push(file);
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const each of some) await gather(each, files);
  }
}

/** Files as {name, text}; those that are no YAML or JSON are left out. Raises Error with a sentence. */
export async function readFiles(files) {
  const wanted = files.filter(file => WANTED.test(file.name));
  if (files.length && !wanted.length) throw new Error("None of these files is YAML or JSON.");
  if (wanted.length > MOST_FILES) throw new Error(`These are more than ${MOST_FILES} files.`);
  return Promise.all(wanted.map(async file => ({name: file.path || file.webkitRelativePath || file.name, text: await file.text()})));
}

/** Whether they are too large together to be sent. */
export function isTooLarge(files) {
  return files.reduce((sum, file) => sum + new Blob([file.text]).size, 0) > MOST_BYTES;
}
