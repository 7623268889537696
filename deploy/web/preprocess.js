// From a decoded frame to the network's input, by the manifest's rule. The twin of deploy/preprocess.py.
import { resizeImage, roundHalfEven } from "./resize.js";

/** {width, height, data: RGBA} -> {type, data, dims}; throws for an input that no browser can make. */
export function prepareInput(image, rule, spec) {
  const rgb = resizeImage(image, rule, padColour(rule));
  if (rule.in_graph && spec.layout === "NHWC" && spec.dtype === "uint8")
    return { type: "uint8", data: rgb, dims: spec.shape };
  if (!rule.in_graph && spec.dtype === "float32")
    return { type: "float32", data: normalise(rgb, rule, spec.layout), dims: spec.shape };
  throw new Error(`input ${spec.name} is ${spec.dtype} ${spec.layout}: this page makes uint8 NHWC or float32`);
}

/** The mean colour, which normalises to about 0. */
function padColour(rule) {
  return rule.mean.map((value) => Math.min(255, Math.max(0, roundHalfEven(255 * value))));
}

/** Stored values of a 16-bit PNG (png.js) -> Hounsfield units of one channel or three: {hu, channels}. */
export function toHu({ channels: stored, data }, offset) {
  const channels = stored < 3 ? 1 : 3, pixels = data.length / stored, hu = new Int16Array(pixels * channels);
  for (let i = 0; i < pixels; i++) for (let c = 0; c < channels; c++) hu[i * channels + c] = data[i * stored + c] - offset;
  return { hu, channels };
}

/** Hounsfield units -> RGBA: low is black, high is white. */
export function windowHu({ hu, channels }, [low, high]) {
  const l = Math.fround(low), h = Math.fround(high), factor = Math.fround(Math.fround(255) / Math.fround(h - l));
  const pixels = hu.length / channels, data = new Uint8ClampedArray(pixels * 4).fill(255);
  for (let i = 0; i < pixels; i++)
    for (let c = 0; c < 3; c++) {
      const inside = Math.min(h, Math.max(l, hu[i * channels + (channels === 3 ? c : 0)]));
      data[4 * i + c] = roundHalfEven(Math.fround(Math.fround(inside - l) * factor));
    }
  return data;
}

/** RGB bytes -> (value / 255 - mean) / std, planes or interleaved; one table of 256 values a channel. */
function normalise(rgb, rule, layout) {
  const tables = [0, 1, 2].map((c) => {
    const scale = Math.fround(1 / (255 * rule.std[c])), shift = Math.fround(-rule.mean[c] / rule.std[c]);
    return Float32Array.from({ length: 256 }, (_, v) => Math.fround(Math.fround(v * scale) + shift));
  });
  const out = new Float32Array(rgb.length), pixels = rgb.length / 3;
  const [pixel, channel] = layout === "NCHW" ? [1, pixels] : [3, 1];
  for (let i = 0; i < pixels; i++)
    for (let c = 0; c < 3; c++) out[i * pixel + c * channel] = tables[c][rgb[3 * i + c]];
  return out;
}
