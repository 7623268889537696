// Files of the page's own server, whole.

/** A file's bytes; throws where the server does not answer or has no such file. */
export const bytesOf = async (path) => new Uint8Array(await read(path, "arrayBuffer"));

/** A JSON file's value; throws as `bytesOf`. */
export const jsonOf = (path) => read(path, "json");

async function read(path, as) {
  let response;
  try {
    response = await fetch(path);
    if (response.ok) return await response[as]();
  } catch {
    throw new Error(`${path}: the server does not answer`);  // the browser's own words name no file
  }
  throw new Error(`${path}: the server answers ${response.status}`);
}
