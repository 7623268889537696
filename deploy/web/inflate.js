// Decompression that stops at a bound, so that no small file fills the memory.

/** A Blob's bytes, decompressed ("deflate", "deflate-raw"), at most `most` of them; throws where they are damaged. */
export async function inflate(blob, format, most) {
  const reader = blob.stream().pipeThrough(new DecompressionStream(format)).getReader();
  const parts = [];
  let total = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => { throw new Error("damaged: it cannot be decompressed"); });
    if (done) break;
    total += value.length;
    if (total > most) {
      await reader.cancel();
      throw new Error(`more than ${most} bytes, decompressed`);
    }
    parts.push(value);
  }
  const out = new Uint8Array(total);
  let at = 0;
  for (const part of parts) { out.set(part, at); at += part.length; }
  return out;
}
