// Where frames come from: camera, image, video, a panned picture, a CT slice. Nothing leaves the browser.
// A source has {title, live, frame()}: frame() gives the newest {width, height, data: RGBA}, or null at the end.
import { bytesOf } from "./bytes.js";
import { decodePng, isDeepPng } from "./png.js";
import { toHu, windowHu } from "./preprocess.js";

const LONGEST_SIDE = 2048;
const HU_OFFSET = 32768;

/** The camera; the page asks, the visitor decides. */
export async function openCamera() {
  if (!navigator.mediaDevices) throw new Error("no camera without a secure connection: localhost, or https");
  const wanted = { facingMode: "environment", width: { ideal: 1280 }, height: { ideal: 720 } };
  const stream = await navigator.mediaDevices.getUserMedia({ video: wanted, audio: false });
  const video = await playing((element) => { element.srcObject = stream; });
  return new VideoSource("Camera", video, () => stream.getTracks().forEach((track) => track.stop()));
}

/** A file that was dropped or chosen: an image, a video, or a 16-bit PNG of Hounsfield units. */
export async function openFile(file) {
  if (file.type.startsWith("video/")) {
    const url = URL.createObjectURL(file);
    const video = await playing((element) => { element.src = url; element.loop = true; });
    return new VideoSource(file.name, video, () => URL.revokeObjectURL(url));
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  return isDeepPng(bytes) ? new CtSource(file.name, await decodePng(bytes), HU_OFFSET) : new ImageSource(file.name, await decodeImage(file));
}

/** A sample of samples.json. */
export async function openSample({ file, title, kind, hu_offset: offset }) {
  const bytes = await bytesOf(file);
  if (kind === "ct") return new CtSource(title, await decodePng(bytes), offset);
  const image = await decodeImage(new Blob([bytes]));
  return kind === "pan" ? new PanSource(title, image) : new ImageSource(title, image);
}

/** A picture's pixels, as stored (no colour management), not larger than `LONGEST_SIDE`. */
export async function decodeImage(blob) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch {
    throw new Error("this browser cannot read the file as an image or a video");
  }
  let pixels = grab(bitmap, bitmap.width, bitmap.height);
  const opaque = new Uint32Array(pixels.data.buffer).every((pixel) => pixel >= 0xff000000);  // little-endian
  if (!opaque && self.VideoFrame) pixels = within(await storedColours(bitmap));
  bitmap.close();
  return pixels;
}

/** Without alpha, as deploy/preprocess.py reads them; a canvas would multiply them by alpha. */
async function storedColours(bitmap) {
  const frame = new VideoFrame(bitmap, { alpha: "discard", timestamp: 0 });
  const data = new Uint8ClampedArray(frame.allocationSize()), [red, blue] = frame.format.startsWith("B") ? [2, 0] : [0, 2];
  await frame.copyTo(data);
  frame.close();
  for (let i = 0; i < data.length; i += 4) [data[i], data[i + 2], data[i + 3]] = [data[i + red], data[i + blue], 255];
  return new ImageData(data, bitmap.width, bitmap.height);
}

const canvas = document.createElement("canvas");
const context = canvas.getContext("2d", { willReadFrequently: true });

/** Pixels of a picture of `across` x `down`, not larger than `LONGEST_SIDE`. */
function grab(picture, across, down) {
  const ratio = Math.min(1, LONGEST_SIDE / Math.max(across, down));
  const [width, height] = [across, down].map((side) => Math.max(1, Math.round(side * ratio)));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  context.globalCompositeOperation = "copy";  // nothing of the picture before shows through
  context.drawImage(picture, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}

/** Pixels as they are, or not larger than `LONGEST_SIDE`. */
function within(image) {
  const { width, height } = image;
  if (Math.max(width, height) <= LONGEST_SIDE) return image;
  const whole = new OffscreenCanvas(width, height);
  whole.getContext("2d").putImageData(image, 0, 0);
  return grab(whole, width, height);
}

async function playing(fill) {
  const element = Object.assign(document.createElement("video"), { muted: true, playsInline: true });
  fill(element);
  await new Promise((resolve, reject) => {
    element.onloadeddata = resolve;
    element.onerror = () => reject(new Error("this browser cannot play the video"));
  });
  await element.play();
  return element;
}

class ImageSource {
  live = false;
  constructor(title, image) { Object.assign(this, { title, image }); }
  frame() { return this.image; }
  close() {}
}

class VideoSource {
  live = true;
  #release;
  constructor(title, video, release) { Object.assign(this, { title, video }); this.#release = release; }

  frame() {
    const { videoWidth: width, videoHeight: height } = this.video;
    return width ? grab(this.video, width, height) : null;
  }

  pause(paused) { return paused ? this.video.pause() : this.video.play(); }
  close() { this.video.pause(); this.#release(); }
}

/** A wide picture, seen through a window that moves over it and back. */
class PanSource {
  live = true;
  #start = performance.now(); #held = null;
  constructor(title, image) { Object.assign(this, { title, image }); }

  frame() {
    const { width, height, data } = this.image, across = Math.min(width, Math.round((height * 4) / 3));
    const run = width - across, at = ((this.#held ?? performance.now() - this.#start) / 1000) * 60;
    const left = run ? Math.round(Math.abs(((at + run) % (2 * run)) - run)) : 0;
    const out = new ImageData(across, height);
    for (let y = 0; y < height; y++)
      out.data.set(data.subarray((y * width + left) * 4, (y * width + left + across) * 4), y * across * 4);
    return out;
  }

  pause(paused) {
    if (paused) this.#held ??= performance.now() - this.#start;  // where it is already held, it stays there
    else { this.#start = performance.now() - this.#held; this.#held = null; }
  }
  close() {}
}

/** A slice in Hounsfield units, shown through `window` [low, high]. */
class CtSource {
  live = false;
  isCt = true;
  window = null;  // the page sets it before the first frame
  constructor(title, png, offset) {
    this.title = title;
    this.#size = [png.width, png.height];
    this.#hu = toHu(png, offset);
  }
  #size; #hu;

  frame() { return within(new ImageData(windowHu(this.#hu, this.window), ...this.#size)); }
  close() {}
}
