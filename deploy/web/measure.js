// "Measure this device": SingleStream in this browser, one frame after the other, as deploy/harness.py does it.
// Figures are of decoded frame to label map at the frame's own size; mIoU of the very maps that were timed.
import { bytesOf } from "./bytes.js";
import { browser, describe } from "./device.js";
import { ConfusionMatrix, jitter, judge, mean, median, percentile } from "./metrics.js";
import { Network } from "./network.js";
import { readNpz } from "./npz.js";
import { decodePng, isDeepPng } from "./png.js";
import { toHu, windowHu } from "./preprocess.js";
import { decodeImage } from "./sources.js";

const FRAMES = 100, WARMUP = 10;

/** The report of a catalog entry; `progress(share, what)`. Throws where the golden is not met. */
export async function measure(entry, threads, runtimeVersion, progress, frames = FRAMES) {
  progress(0, "loading");
  const network = await Network.open(entry, threads);
  try {
    progress(0, "verifying");
    const source = await verified(network, entry);
    const taken = await timedPass(network, source, frames, progress);
    return await report(entry, network, source, taken, runtimeVersion);
  } finally {
    network.close();
  }
}

/** What to measure with, once the network has given what the golden asks. */
async function verified(network, entry) {
  const { golden } = entry.manifest;
  if (!golden) throw new Error("the bundle has no golden, so nothing shows that this browser computes the same");
  const arrays = await readNpz(await bytesOf(entry.base + golden.file));
  await verify(network, entry.manifest, arrays);
  return entry.evaluation ? new LabelledFrames(entry) : new GoldenFrames(arrays.inputs, entry.manifest);
}

/** Replay the golden: as `deploy verify`. */
async function verify(network, { golden, outputs: [spec] }, { inputs, outputs }) {
  const given = inputs.data.length / inputs.shape[0], asked = outputs.data.length / outputs.shape[0];
  let equal = 0, largest = 0;
  for (let n = 0; n < inputs.shape[0]; n++) {
    const got = await network.raw(inputs.data.slice(n * given, (n + 1) * given));
    const want = outputs.data.subarray(n * asked, (n + 1) * asked);
    if (spec.layout === "NHW") for (let i = 0; i < asked; i++) equal += Number(got[i]) === Number(want[i]);
    else {
      for (let i = 0; i < asked; i++) largest = Math.max(largest, Math.abs(got[i] - want[i]));
      equal += sameArgmax(got, want, spec);
    }
  }
  const labels = spec.layout === "NHW" ? outputs.data.length : outputs.data.length / channels(spec);
  if (!(equal / labels >= golden.min_agreement)) throw new Error(`golden not met: agreement ${(equal / labels).toFixed(6)}, asked ${golden.min_agreement}`);
  if (!(largest <= golden.max_abs_error)) throw new Error(`golden not met: largest error ${largest}, asked ${golden.max_abs_error}`);
}

const channels = (spec) => spec.shape[spec.layout === "NHWC" ? 3 : 1];

function sameArgmax(got, want, spec) {
  const count = channels(spec), pixels = got.length / count, last = spec.layout === "NHWC";
  const argmax = (data, i) => {
    let best = 0;
    const at = (c) => data[last ? i * count + c : c * pixels + i];
    for (let c = 1; c < count; c++) if (at(c) > at(best)) best = c;
    return best;
  };
  let same = 0;
  for (let i = 0; i < pixels; i++) same += argmax(got, i) === argmax(want, i);
  return same;
}

async function timedPass(network, source, frames, progress) {
  const taken = { times: [], around: 0, matrix: source.matrix() };
  for (let i = 0; i < WARMUP; i++) {
    const { times } = await network.segment(await source.image(i % source.length));
    if (i === 0) taken.firstMs = sum(times);
  }
  const wall = Date.now(), steady = performance.now(), count = Math.max(frames, source.length);
  for (let i = 0; i < count; i++) {
    const image = await source.image(i % source.length);  // decoded outside the clock
    const { labels, times, aroundMs } = await network.segment(image);
    if (taken.matrix && i < source.length) taken.matrix.update(labels, await source.mask(i));
    taken.times.push(times);
    taken.around += aroundMs;
    progress((i + 1) / count, `frame ${i + 1} of ${count}`);
  }
  taken.clockJump = Math.round((Date.now() - wall - (performance.now() - steady))) / 1000;
  return taken;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
const column = (rows, index) => rows.map((row) => row[index]);

async function report(entry, network, source, { times, around, matrix, firstMs, clockJump }, runtimeVersion) {
  const { manifest } = entry, total = times.map(sum), machine = await describe();
  const [preprocess, inference, postprocess] = [0, 1, 2].map((stage) => median(column(times, stage)));
  return {
    schema_version: 2, name: manifest.name, proof: "executed", target: "onnxruntime-web",
    precision: manifest.target.precision, options: manifest.target.options, size: manifest.preprocess.size,
    model: manifest.provenance.model, ...accuracy(manifest, source, matrix),
    frames: times.length, warmup: WARMUP,
    latency_ms: { p50: percentile(total, 50), p90: percentile(total, 90), p99: percentile(total, 99), mean: mean(total) },
    stages_ms: { preprocess, inference, postprocess }, throughput_fps: 1000 / mean(total),
    peak_memory_bytes: null, peak_memory_reason: "a browser does not tell", threads: network.threads,
    bundle_bytes: entry.bytes, bundle_sha256: entry.sha256, machine,
    versions: { "onnxruntime-web": runtimeVersion, browser: browser() },
    command: "", timestamp: "",  // the server's
    startup: { load_ms: network.loadMs, first_ms: firstMs }, jitter_ms: jitter(total),
    overhead: Math.max(0, 1 - sum(total) / around), noise: judge(column(times, 1), clockJump),
  };
}

function accuracy(manifest, source, matrix) {
  if (!matrix) return { dataset: null, images: 0, miou: null, iou: null, pixel_accuracy: null, accuracy_reason: source.reason };
  const iou = matrix.iou(), miou = matrix.miou();
  return {
    dataset: source.dataset, images: source.length, miou,
    iou: Object.fromEntries(manifest.classes.map(({ name }, id) => [name, iou[id]])),
    pixel_accuracy: matrix.pixelAccuracy(),
    accuracy_reason: miou === null ? "every pixel of every mask is ignored" : null,
  };
}

/** The bundle's labelled images. */
class LabelledFrames {
  constructor({ evaluation, manifest }) {
    Object.assign(this, { evaluation, manifest, length: evaluation.pairs.length });
    this.dataset = { name: evaluation.name, split: evaluation.split, sha256: evaluation.sha256 };
  }

  matrix() { return new ConfusionMatrix(this.manifest.classes.length, this.evaluation.ignore_index); }

  async image(index) {
    const { evaluation, manifest: { preprocess: rule } } = this, path = evaluation.pairs[index].image;
    const bytes = await bytesOf(path);
    if (evaluation.hu_offset === null || !isDeepPng(bytes)) return decodeImage(new Blob([bytes]));
    const png = await decodePng(bytes);
    return { width: png.width, height: png.height, data: windowHu(toHu(png, evaluation.hu_offset), rule.hu_window) };
  }

  async mask(index) { return (await decodePng(await bytesOf(this.evaluation.pairs[index].mask))).data; }
}

/** The golden's inputs as frames, without truth. */
class GoldenFrames {
  reason = "the bundle has no labelled images: speed only";

  constructor(inputs, manifest) {
    const [height, width] = manifest.preprocess.size, pixels = height * width;
    this.length = inputs.shape[0];
    this.images = Array.from({ length: this.length }, (_, n) => ({ width, height, data: rgba(inputs.data, n * pixels * 3, pixels, manifest) }));
  }

  matrix() { return null; }
  image(index) { return this.images[index]; }
}

function rgba(values, start, pixels, { preprocess: { in_graph: inGraph, mean: means, std }, inputs: [{ layout }] }) {
  const data = new Uint8ClampedArray(pixels * 4).fill(255);
  for (let i = 0; i < pixels; i++)
    for (let c = 0; c < 3; c++) {
      const value = values[start + (layout === "NCHW" ? c * pixels + i : 3 * i + c)];
      data[4 * i + c] = inGraph ? value : (value * std[c] + means[c]) * 255;
    }
  return data;
}
