// The golden, numpy's .npz: a zip of .npy arrays. Reads what numpy writes; refuses Fortran order and zip64.
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
import { inflate } from "./inflate.js";

const MOST_BYTES = 1 << 28;
const KINDS = {
  "|u1": Uint8Array, "|i1": Int8Array, "<i4": Int32Array, "<i8": BigInt64Array, "<f4": Float32Array,
};

/** Bytes of an .npz -> {name: {shape, data}}. */
export async function readNpz(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), arrays = {};
  for (const member of directory(bytes, view)) {
    const start = member.at + 30 + view.getUint16(member.at + 26, true) + view.getUint16(member.at + 28, true);
    const packed = bytes.subarray(start, start + member.packed);
    const data = member.method === 8 ? await inflate(new Blob([packed]), "deflate-raw", MOST_BYTES) : packed;
    arrays[member.name.replace(/\.npy$/, "")] = readNpy(data);
  }
  return arrays;
}

function directory(bytes, view) {
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new Error("not an .npz file");
  const members = [];
  for (let i = 0, at = view.getUint32(end + 16, true); i < view.getUint16(end + 10, true); i++) {
    const length = view.getUint16(at + 28, true);
    members.push({
      method: view.getUint16(at + 10, true),
      packed: view.getUint32(at + 20, true),
      at: view.getUint32(at + 42, true),
      name: new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + length)),
    });
    at += 46 + length + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return members;
}

function readNpy(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), wide = bytes[6] > 1;
  const start = wide ? 12 : 10, length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder().decode(bytes.subarray(start, start + length));
  const kind = KINDS[/'descr': *'([^']+)'/.exec(header)?.[1]], shape = /'shape': *\(([^)]*)\)/.exec(header)?.[1];
  if (!kind || shape === undefined || !header.includes("'fortran_order': False")) throw new Error(`an array of another kind: ${header}`);
  const dims = shape.split(",").filter((part) => part.trim()).map(Number);
  const data = new kind(bytes.slice(start + length).buffer);
  if (data.length !== dims.reduce((a, b) => a * b, 1)) throw new Error("a damaged array");
  return { shape: dims, data };
}
