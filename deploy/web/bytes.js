// A file of the page's own server, whole.

/** Its bytes; throws where the server has no such file. */
export async function bytesOf(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}
