// Takes the newest frame of a source through the open networks in turn, again and again. A still picture is
// taken once, and again where something changed. What is open stays until all that was asked for instead has
// loaded. Refuses to know controls.
import { Network } from "./network.js";
import { median } from "./metrics.js";
import { areas, Pane } from "./pane.js";

const RECENT = 15;

export class Stage {
  source = null;
  paused = false;
  view = { colours: [], hidden: new Set(), opacity: 0.6, split: null };
  #lanes = []; #wake = null; #dirty = false; #asked = 0; #loading = Promise.resolve();

  /** `onAreas(shares)` after each frame of the first network; `onError(error)`. */
  constructor(element, { onAreas, onError }) {
    Object.assign(this, { element, onAreas, onError });
    this.#loop();
  }

  get panes() { return this.#lanes.map((lane) => lane.pane); }

  /**
   * Change to these networks once all are loaded; one that is loaded with the same threads stays. A later call
   * overtakes this one: then nothing changes, and the answer is false. Throws, and changes nothing, where one
   * does not load.
   */
  async open(entries, threads, titleOf) {
    const mine = ++this.#asked;
    await this.#loading;
    if (mine !== this.#asked) return false;
    const load = this.#load(entries, threads, titleOf);
    this.#loading = load.catch(() => {});  // told to who asked; the next one is not stopped by it
    const lanes = await load, newest = mine === this.#asked;
    const [stay, leave] = newest ? [lanes, this.#lanes] : [this.#lanes, lanes];
    closeAllBut(stay, leave);
    this.#lanes = stay;
    if (newest) this.touch();
    return newest;
  }

  async #load(entries, threads, titleOf) {
    const lanes = [];
    try {
      for (const entry of entries) {
        const open = this.#lanes.find(({ network }) => network.entry === entry && network.threads === threads);
        lanes.push(open ?? (await newLane(entry, threads, titleOf(entry))));
      }
      return lanes;
    } catch (error) {
      closeAllBut(this.#lanes, lanes);
      throw error;
    }
  }

  /** Show another source; the one before is closed. */
  set(source) {
    this.source?.close();
    this.source = source;
    this.paused = false;
    for (const lane of this.#lanes) lane.recent = [];
    this.touch();
  }

  pause(paused) {
    this.paused = paused;
    this.source?.pause?.(paused);
    this.touch();
  }

  /** Something changed: take the picture anew. */
  touch() { this.#dirty = true; this.#wake?.(); }

  /** The view changed: draw the same labels again. */
  redraw() { for (const pane of this.panes) pane.redraw(this.view); }

  async #loop() {
    for (;;) {
      const moving = this.source?.live && !this.paused && !document.hidden && this.#lanes.length;
      if (!moving && !this.#dirty) await new Promise((resolve) => { this.#wake = resolve; });
      this.#dirty = false;
      await this.#turn().catch((error) => { if (error.message !== "closed") this.onError(error); });
      this.#place();
      await new Promise((resolve) => { requestAnimationFrame(resolve); setTimeout(resolve, 100); });
    }
  }

  async #turn() {
    const source = this.source, lanes = this.#lanes, frame = source?.frame();
    if (!frame) return;
    for (const [index, lane] of lanes.entries()) {
      const { labels, times } = await lane.network.segment(frame);
      if (source !== this.source || lanes !== this.#lanes) return this.touch();
      lane.pane.show(frame, labels, this.view);
      this.#count(lane, times.reduce((a, b) => a + b, 0));
      if (index === 0) this.onAreas(areas(labels, this.view.colours.length));
    }
  }

  /** Panes come in with their first picture; those of networks that are gone stay until then. */
  #place() {
    const wanted = this.#lanes.filter(({ warm }) => warm).map(({ pane }) => pane.element), there = [...this.element.children];
    if (wanted.length && (wanted.length !== there.length || wanted.some((pane, i) => pane !== there[i])))
      this.element.replaceChildren(...wanted);
  }

  /** The first frame after loading is slower than all others: it is not counted, and a still is taken again. */
  #count(lane, ms) {
    if (!lane.warm) {
      lane.warm = true;
      return this.touch();
    }
    lane.recent = [...lane.recent.slice(1 - RECENT), ms];
    const typical = median(lane.recent);
    lane.pane.figures = `${typical.toFixed(1)} ms, ${(1000 / typical).toFixed(typical < 10 ? 0 : 1)} fps`;
  }
}

async function newLane(entry, threads, title) {
  try {
    return { network: await Network.open(entry, threads), pane: new Pane(title), recent: [], warm: false };
  } catch (error) {
    throw new Error(`${title} does not load: ${error.message}`);
  }
}

function closeAllBut(stay, lanes) {
  for (const lane of lanes) if (!stay.includes(lane)) lane.network.close();
}
