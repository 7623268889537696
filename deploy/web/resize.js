// Resizing 8-bit images bit for bit as OpenCV's INTER_LINEAR_EXACT, and INTER_AREA where both sides shrink.
// The twin of deploy/preprocess.py; refuses to know networks. Source of the arithmetic: OpenCV's
// modules/imgproc/src/resize.cpp (Apache-2.0): weights of 8 fractional bits, rounded once at the end.

/** Nearest whole number, halves to the even one, as Python's round and OpenCV's cvRound. */
export function roundHalfEven(value) {
  const below = Math.floor(value), rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** (top, left, height, width) of a frame that is scaled to fit into `size`, centred. Sizes are [height, width]. */
export function letterboxWindow(frame, size) {
  const ratio = Math.min(size[0] / frame[0], size[1] / frame[1]);
  const [height, width] = frame.map((side, i) => Math.max(1, Math.min(size[i], roundHalfEven(side * ratio))));
  return [(size[0] - height) >> 1, (size[1] - width) >> 1, height, width];
}

/** RGBA pixels of {width, height, data} -> RGB of `rule.size` ([height, width]), Uint8Array. */
export function resizeImage(image, rule, pad) {
  const [height, width] = rule.size;
  if (rule.resize === "stretch" || (image.height === height && image.width === width))
    return scale(image, height, width, rule.interpolation);
  const [top, left, inner, across] = letterboxWindow([image.height, image.width], rule.size);
  const part = scale(image, inner, across, rule.interpolation);
  const canvas = new Uint8Array(height * width * 3);
  for (let i = 0; i < canvas.length; i += 3) canvas.set(pad, i);
  for (let y = 0; y < inner; y++)
    canvas.set(part.subarray(y * across * 3, (y + 1) * across * 3), ((top + y) * width + left) * 3);
  return canvas;
}

function scale(image, height, width, interpolation) {
  if (image.height === height && image.width === width) return withoutAlpha(image.data);
  const shrinks = height <= image.height && width <= image.width;
  return interpolation === "area" && shrinks ? area(image, height, width) : linear(image, height, width);
}

function withoutAlpha(data) {
  const out = new Uint8Array((data.length / 4) * 3);
  for (let i = 0, j = 0; j < out.length; i += 4, j += 3) {
    out[j] = data[i]; out[j + 1] = data[i + 1]; out[j + 2] = data[i + 2];
  }
  return out;
}

/** For each target position the first of two neighbours, and the second one's weight in 1/256. */
function taps(count, wanted) {
  const step = 1 / (wanted / count);
  const first = new Int32Array(wanted), second = new Int32Array(wanted), weight = new Int32Array(wanted);
  for (let i = 0; i < wanted; i++) {
    const at = step * (i + 0.5) - 0.5, below = Math.floor(at);
    const inside = below >= 0 && below < count - 1;
    first[i] = Math.max(0, Math.min(count - 1, below));
    second[i] = inside ? below + 1 : first[i];
    weight[i] = inside ? roundHalfEven((at - below) * 256) : 0;
  }
  return { first, second, weight };
}

function linear(image, height, width) {
  const x = taps(image.width, width), y = taps(image.height, height);
  const rows = new Map(), out = new Uint8Array(height * width * 3);
  const row = (index) => {
    let found = rows.get(index);
    if (!found) rows.set(index, (found = across(image, index, x, width)));
    return found;
  };
  for (let i = 0, at = 0; i < height; i++) {
    const upper = row(y.first[i]), lower = row(y.second[i]), below = y.weight[i], above = 256 - below;
    for (let j = 0; j < upper.length; j++, at++) out[at] = (upper[j] * above + lower[j] * below + 32768) >> 16;
    for (const index of rows.keys()) if (index < y.first[i]) rows.delete(index);
  }
  return out;
}

/** One source row, scaled across, with 8 fractional bits. */
function across(image, index, x, width) {
  const { data } = image, start = index * image.width * 4, out = new Int32Array(width * 3);
  for (let i = 0, at = 0; i < width; i++) {
    const a = start + x.first[i] * 4, b = start + x.second[i] * 4, right = x.weight[i], left = 256 - right;
    out[at++] = data[a] * left + data[b] * right;
    out[at++] = data[a + 1] * left + data[b + 1] * right;
    out[at++] = data[a + 2] * left + data[b + 2] * right;
  }
  return out;
}

/** For each target position the source positions below it and the share of each, as floats. */
function shares(count, wanted) {
  const step = 1 / (wanted / count), list = [];
  for (let i = 0; i < wanted; i++) {
    const from = i * step, to = from + step, cell = Math.min(step, count - from), found = [];
    let start = Math.ceil(from), end = Math.min(Math.floor(to), count - 1);
    start = Math.min(start, end);
    if (start - from > 1e-3) found.push([start - 1, Math.fround((start - from) / cell)]);
    for (let s = start; s < end; s++) found.push([s, Math.fround(1 / cell)]);
    if (to - end > 1e-3) found.push([end, Math.fround(Math.min(Math.min(to - end, 1), cell) / cell)]);
    list.push(found);
  }
  return list;
}

function area(image, height, width) {
  if (image.height % height === 0 && image.width % width === 0) return blocks(image, height, width);
  const x = shares(image.width, width), y = shares(image.height, height);
  const out = new Uint8Array(height * width * 3), sum = new Float32Array(width * 3), line = new Float32Array(width * 3);
  for (let i = 0; i < height; i++) {
    sum.fill(0);
    for (const [row, share] of y[i]) {
      areaAcross(image, row, x, line);
      for (let j = 0; j < sum.length; j++) sum[j] += Math.fround(line[j] * share);
    }
    for (let j = 0; j < sum.length; j++) out[i * width * 3 + j] = roundHalfEven(sum[j]);
  }
  return out;
}

/** Whole numbers of pixels a target pixel: their sum is exact. OpenCV rounds means of 2 x 2 half up. */
function blocks(image, height, width) {
  const down = image.height / height, along = image.width / width, out = new Uint8Array(height * width * 3);
  const factor = Math.fround(1 / (down * along)), halves = down === 2 && along === 2;
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let c = 0; c < 3; c++, at++) {
        let sum = 0;
        for (let i = 0; i < down; i++)
          for (let j = 0; j < along; j++) sum += image.data[((y * down + i) * image.width + x * along + j) * 4 + c];
        out[at] = halves ? (sum + 2) >> 2 : roundHalfEven(Math.fround(sum * factor));
      }
  return out;
}

function areaAcross(image, row, x, line) {
  const start = row * image.width * 4;
  line.fill(0);
  for (let i = 0; i < x.length; i++)
    for (const [column, share] of x[i])
      for (let c = 0; c < 3; c++) line[i * 3 + c] += Math.fround(image.data[start + column * 4 + c] * share);
}
