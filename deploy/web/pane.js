// One picture with its label map over it. Redraws by itself when opacity, split or switches change; refuses to
// know where frames and labels come from.

export class Pane {
  #context; #picture = document.createElement("canvas"); #paint = document.createElement("canvas");
  #figures = document.createElement("span");

  /** `title`: the model's name, above its figures. */
  constructor(title) {
    this.element = document.createElement("figure");
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.#context = this.canvas.getContext("2d");
    this.canvas.setAttribute("aria-label", `Picture with the classes found by ${title}`);
    const caption = document.createElement("figcaption");
    caption.append(Object.assign(document.createElement("b"), { textContent: title }), this.#figures);
    this.element.append(this.canvas, caption);
  }

  set figures(text) { this.#figures.textContent = text; }

  /** A frame {width, height, data} and its labels, Uint8Array of the same size. */
  show(frame, labels, view) {
    for (const canvas of [this.canvas, this.#picture, this.#paint])
      if (canvas.width !== frame.width || canvas.height !== frame.height)
        Object.assign(canvas, { width: frame.width, height: frame.height });
    this.canvas.style.setProperty("--ratio", frame.width / frame.height);
    this.#picture.getContext("2d").putImageData(new ImageData(frame.data, frame.width, frame.height), 0, 0);
    this.labels = labels;
    this.redraw(view);
  }

  /** `view`: {colours, hidden: Set of ids, opacity 0..1, split: null or 0..1}. */
  redraw(view) {
    if (!this.labels) return;
    const { width, height } = this.canvas, context = this.#context;
    this.#colour(view, width, height);
    const from = view.split === null ? 0 : Math.round(view.split * width);
    context.clearRect(0, 0, width, height);
    context.drawImage(this.#picture, 0, 0);
    context.save();
    context.beginPath();
    context.rect(from, 0, width - from, height);
    context.clip();
    context.globalAlpha = view.opacity;
    context.drawImage(this.#paint, 0, 0);
    context.restore();
    if (view.split !== null) drawDivider(context, from, height, width);
  }

  #colour({ colours, hidden }, width, height) {
    const table = new Uint32Array(256);
    colours.forEach(([r, g, b], id) => {
      if (!hidden.has(id)) table[id] = 0xff000000 | (b << 16) | (g << 8) | r;  // RGBA in memory: every browser is little-endian
    });
    const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = table[this.labels[i]];
    this.#paint.getContext("2d").putImageData(image, 0, 0);
  }
}

function drawDivider(context, x, height, width) {
  const line = Math.max(1, width / 400);
  context.fillStyle = "#fff";
  context.fillRect(x - line / 2, 0, line, height);
  context.beginPath();
  context.arc(x, height / 2, line * 6, 0, 2 * Math.PI);
  context.fill();
}

/** Share of each label 0..count-1. */
export function areas(labels, count) {
  const counts = new Array(256).fill(0);
  for (let i = 0; i < labels.length; i++) counts[labels[i]]++;
  return counts.slice(0, count).map((n) => n / labels.length);
}
