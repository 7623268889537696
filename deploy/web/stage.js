// Takes the newest frame of a source through the open networks in turn, again and again. A still picture is
// taken once, and again where something changed. Refuses to know controls.
import { Network } from "./network.js";
import { median } from "./metrics.js";
import { areas, Pane } from "./pane.js";

const RECENT = 15;

export class Stage {
  source = null;
  paused = false;
  view = { colours: [], hidden: new Set(), opacity: 0.6, split: null };
  #lanes = []; #wake = null; #dirty = false; #busy = Promise.resolve();

  /** `onAreas(shares)` after each frame of the first network; `onError(error)`. */
  constructor(element, { onAreas, onError }) {
    Object.assign(this, { element, onAreas, onError });
    this.#loop();
  }

  get panes() { return this.#lanes.map((lane) => lane.pane); }

  /** Load so many networks as there are entries; a network that is loaded with the same threads stays. */
  async open(entries, threads, titleOf) {
    const mine = this.#busy.then(() => this.#open(entries, threads, titleOf));
    this.#busy = mine.catch(() => {});  // told to who asked; the next one is not stopped by it
    await mine;
    this.touch();
  }

  async #open(entries, threads, titleOf) {
    const before = this.#lanes;
    this.#lanes = [];
    await this.#idle;
    const kept = entries.map((entry) => before.find((lane) => lane.network.entry === entry && lane.network.threads === threads));
    for (const lane of before) if (!kept.includes(lane)) lane.network.close();
    const lanes = [];
    try {
      for (const [index, entry] of entries.entries()) {
        const lane = kept[index] ?? { network: await Network.open(entry, threads), pane: new Pane(), recent: [] };
        lane.pane.title = titleOf(entry);
        lanes.push(lane);
      }
    } catch (error) {
      for (const lane of [...lanes, ...kept]) lane?.network.close();
      throw error;
    }
    this.element.replaceChildren(...lanes.map((lane) => lane.pane.element));
    this.#lanes = lanes;
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

  #idle = Promise.resolve();

  async #loop() {
    for (;;) {
      const moving = this.source?.live && !this.paused && !document.hidden && this.#lanes.length;
      if (!moving && !this.#dirty) await new Promise((resolve) => { this.#wake = resolve; });
      this.#dirty = false;
      this.#idle = this.#turn().catch((error) => { if (error.message !== "closed") this.onError(error); });
      await this.#idle;
      await new Promise((resolve) => { requestAnimationFrame(resolve); setTimeout(resolve, 100); });
    }
  }

  async #turn() {
    const source = this.source, frame = source?.frame();
    if (!frame) return;
    for (const [index, lane] of this.#lanes.entries()) {
      const { labels, times } = await lane.network.segment(frame);
      if (source !== this.source) return this.touch();
      lane.pane.show(frame, labels, this.view);
      this.#count(lane, times.reduce((a, b) => a + b, 0));
      if (index === 0) this.onAreas(areas(labels, this.view.colours.length));
    }
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
