// One loaded network in a thread of its own: frames in, label maps and stage times out.
// Refuses to know the page. Messages: {id, kind: "open" | "segment" | "raw", ...} -> {id, ...} or {id, error}.
import * as ort from "./ort/ort.wasm.min.mjs";
import { bytesOf } from "./bytes.js";
import { outputToLabels, toFrameSize } from "./postprocess.js";
import { prepareInput } from "./preprocess.js";

let session = null, manifest = null;

const handlers = {
  async open({ model, external, manifest: told, threads }) {
    const start = performance.now();
    manifest = told;
    ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
    ort.env.wasm.numThreads = threads;
    const externalData = await Promise.all(Object.entries(external).map(async ([path, url]) => ({ path, data: await bytesOf(url) })));
    session = await ort.InferenceSession.create(await bytesOf(model), { executionProviders: ["wasm"], graphOptimizationLevel: "all", externalData });
    return { loadMs: performance.now() - start };
  },

  async segment({ image }) {
    const { preprocess: rule, inputs: [input], outputs: [output], target } = manifest;
    const start = performance.now();
    const tensor = prepareInput(image, rule, input);
    const prepared = performance.now();
    const answer = await run(tensor);
    const inferred = performance.now();
    const map = outputToLabels(answer, output, rule.size, target.options.upsample ?? "bilinear");
    const labels = toFrameSize(map, rule, [image.height, image.width]);
    const finished = performance.now();
    const times = [prepared - start, inferred - prepared, finished - inferred];
    return { labels, times, aroundMs: performance.now() - start };
  },

  async raw({ data }) {
    const [spec] = manifest.inputs;
    return { data: (await run({ type: spec.dtype, data, dims: spec.shape })).data };
  },
};

async function run({ type, data, dims }) {
  const feeds = { [manifest.inputs[0].name]: new ort.Tensor(type, data, dims) };
  return (await session.run(feeds))[manifest.outputs[0].name];
}

self.onmessage = async ({ data: { id, kind, ...message } }) => {
  try {
    self.postMessage({ id, ...(await handlers[kind](message)) });
  } catch (error) {
    self.postMessage({ id, error: String(error?.message ?? error) });
  }
};
