// PNG files as stored: 16-bit values and palette indices, which a canvas would turn into 8-bit colours.
// Refuses interlaced files and sizes beyond `MOST_PIXELS`. Source: https://www.w3.org/TR/png-3/.
import { inflate } from "./inflate.js";

const MOST_PIXELS = 1 << 26;
const CHANNELS = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

/** PNG bytes (Uint8Array) -> {width, height, channels, depth, data}; 16 bits give a Uint16Array. */
export async function decodePng(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 33 || view.getUint32(0) !== 0x89504e47) throw new Error("not a PNG");
  const width = view.getUint32(16), height = view.getUint32(20);
  const depth = bytes[24], channels = CHANNELS[bytes[25]];
  if (!channels || bytes[28] !== 0) throw new Error("an interlaced PNG, or of an unknown kind");
  if (width * height > MOST_PIXELS) throw new Error(`a PNG of ${width} x ${height} pixels: at most ${MOST_PIXELS} can be read`);
  if (width * height === 0) throw new Error("a damaged PNG");
  const stride = Math.ceil((width * channels * depth) / 8);
  const raw = await inflate(imageData(bytes, view), "deflate", height * (stride + 1));
  if (raw.length !== height * (stride + 1)) throw new Error("a damaged PNG");
  const lines = unfilter(raw, height, stride, Math.max(1, (channels * depth) >> 3));
  return { width, height, channels, depth, data: samples(lines, height, stride, width * channels, depth) };
}

/** True for a PNG that holds 16 bits a value. */
export function isDeepPng(bytes) {
  return bytes.length > 25 && bytes[0] === 0x89 && bytes[1] === 0x50 && bytes[24] === 16;
}

function imageData(bytes, view) {
  const parts = [];
  for (let at = 8; at + 12 <= bytes.length; ) {
    const length = view.getUint32(at), name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (name === "IDAT") parts.push(bytes.subarray(at + 8, at + 8 + length));
    if (name === "IEND") break;
    at += 12 + length;
  }
  return new Blob(parts);
}

function unfilter(raw, height, stride, step) {
  const out = new Uint8Array(height * stride);
  for (let y = 0; y < height; y++) {
    const kind = raw[y * (stride + 1)], from = y * (stride + 1) + 1, to = y * stride;
    for (let x = 0; x < stride; x++) {
      const left = x >= step ? out[to + x - step] : 0, up = y ? out[to + x - stride] : 0;
      const corner = x >= step && y ? out[to + x - stride - step] : 0;
      out[to + x] = raw[from + x] + predicted(kind, left, up, corner);
    }
  }
  return out;
}

function predicted(kind, left, up, corner) {
  switch (kind) {
    case 0: return 0;
    case 1: return left;
    case 2: return up;
    case 3: return (left + up) >> 1;
    case 4: {
      const a = Math.abs(up - corner), b = Math.abs(left - corner), c = Math.abs(left + up - 2 * corner);
      return a <= b && a <= c ? left : b <= c ? up : corner;
    }
    default: throw new Error("a damaged PNG");
  }
}

function samples(lines, height, stride, perLine, depth) {
  if (depth === 8) return lines;
  const out = new (depth === 16 ? Uint16Array : Uint8Array)(height * perLine);
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < perLine; x++, at++) {
      const bit = x * depth, byte = y * stride + (bit >> 3);
      out[at] = depth === 16 ? (lines[byte] << 8) | lines[byte + 1]
        : (lines[byte] >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
    }
  return out;
}
