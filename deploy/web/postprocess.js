// From the network's output to a label map at the frame's own size. The twin of deploy/postprocess.py.
import { letterboxWindow } from "./resize.js";

/** Raw output {data} of one frame -> labels at the network's size, Uint8Array of size[0] * size[1]. */
export function outputToLabels(output, spec, size, upsample) {
  if (spec.layout === "NHW") return output.data instanceof Uint8Array ? output.data : Uint8Array.from(output.data, Number);
  return logitsToLabels(logits(output, spec), size, upsample);
}

/** Labels at the network's size -> at the frame's ([height, width]): undoes stretch or letterbox. */
export function toFrameSize(labels, rule, frame) {
  const [height, width] = rule.size;
  if (height === frame[0] && width === frame[1]) return labels;
  const window = rule.resize === "letterbox" ? letterboxWindow(frame, rule.size) : [0, 0, height, width];
  return nearest(labels, width, window, frame);
}

/** Nearest neighbour by the pixel-centre rule in whole numbers, from a window of the map. */
function nearest(labels, stride, [top, left, height, width], [H, W]) {
  const rows = sourceIndex(height, H), columns = sourceIndex(width, W), out = new Uint8Array(H * W);
  for (let y = 0, at = 0; y < H; y++) {
    const start = (top + rows[y]) * stride + left;
    for (let x = 0; x < W; x++) out[at++] = labels[start + columns[x]];
  }
  return out;
}

function sourceIndex(count, wanted) {
  return Int32Array.from({ length: wanted }, (_, i) => Math.floor(((2 * i + 1) * count) / (2 * wanted)));
}

/** {classes, height, width, plane(class)} of NCHW or NHWC logits, scaled where they are integers. */
function logits({ data }, spec) {
  const last = spec.layout === "NHWC";
  const [classes, height, width] = last ? [spec.shape[3], spec.shape[1], spec.shape[2]] : spec.shape.slice(1);
  const scale = spec.scale ?? 1, zero = spec.scale === null ? 0 : (spec.zero_point ?? 0);
  const plane = (c) => {
    const out = new Float32Array(height * width);
    for (let i = 0; i < out.length; i++) out[i] = (data[last ? i * classes + c : c * out.length + i] - zero) * scale;
    return out;
  };
  return { classes, height, width, plane };
}

/** Enlarged class by class against a running maximum, so that full-size logits of all classes never exist. */
function logitsToLabels({ classes, height, width, plane }, [H, W], upsample) {
  const rows = weights(height, H, upsample), columns = weights(width, W, upsample);
  const labels = new Uint8Array(H * W);
  let best = null;
  for (let c = 0; c < classes; c++) {
    const small = plane(c);
    if (!small.every(Number.isFinite)) throw new Error("the network's logits are not finite");
    const values = enlarge(small, width, rows, columns);
    if (best === null) best = values;
    else for (let i = 0; i < values.length; i++) if (values[i] > best[i]) { best[i] = values[i]; labels[i] = c; }
  }
  return labels;
}

function enlarge(plane, width, rows, columns) {
  const height = plane.length / width, W = columns.length, out = new Float32Array(rows.length * W);
  const wide = new Float32Array(height * W);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < W; x++) {
      let sum = 0;
      for (const [index, weight] of columns[x]) sum += plane[y * width + index] * weight;
      wide[y * W + x] = sum;
    }
  for (let y = 0; y < rows.length; y++)
    for (let x = 0; x < W; x++) {
      let sum = 0;
      for (const [index, weight] of rows[y]) sum += wide[index * W + x] * weight;
      out[y * W + x] = sum;
    }
  return out;
}

/** For each target position its source positions and weights; pixel centres, edges repeated. */
function weights(count, wanted, upsample) {
  if (upsample !== "bilinear" && upsample !== "bicubic") throw new Error(`unknown upsampling ${upsample}`);
  return Array.from({ length: wanted }, (_, i) => {
    const at = ((i + 0.5) * count) / wanted - 0.5, below = Math.floor(at), t = at - below;
    const kernel = upsample === "bilinear" ? [[0, 1 - t], [1, t]] : [-1, 0, 1, 2].map((k) => [k, cubic(t - k)]);
    return kernel.map(([k, weight]) => [Math.max(0, Math.min(count - 1, below + k)), weight]);
  });
}

/** Keys' kernel with a = -0.75, as OpenCV and PyTorch have it. */
function cubic(distance) {
  const a = -0.75, d = Math.abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}
