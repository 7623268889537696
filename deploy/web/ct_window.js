// Level and window of a CT slice: the sliders change what the network sees. Refuses to know networks and pixels.

export class CtWindow {
  #source = null; #trained = null;

  /** `ids(id)` finds elements; `changed` is called after a change. */
  constructor(ids, changed) {
    Object.assign(this, { ids, changed });
    for (const id of ["level", "window"]) ids(id).oninput = () => this.#move(id, Number(ids(id).value));
    ids("window-reset").onclick = () => { this.#asTrained(); changed(); };
  }

  /** The slice of a source through the window of a catalog entry; hidden for a source that is none. */
  show(source, { manifest: { preprocess: { hu_window: window } } }) {
    this.ids("ct").hidden = !source?.isCt;
    if (!source?.isCt) return;
    this.#source = source;
    this.#trained = window;
    this.#asTrained();
  }

  /** Its sliders reach whatever window the model has. */
  #asTrained() {
    const [low, high] = this.#trained;
    Object.assign(this.ids("level"), { min: Math.min(-1000, low), max: Math.max(1500, high) });
    this.ids("window").max = Math.max(3000, high - low);
    this.#set((low + high) / 2, high - low);
  }

  #move(id, value) {
    const [low, high] = this.#source.window;
    if (id === "level") this.#set(value, high - low);
    else this.#set((low + high) / 2, value);
    this.changed();
  }

  #set(level, width) {
    this.#source.window = [level - width / 2, level + width / 2];
    for (const [id, value] of [["level", level], ["window", width]]) {
      this.ids(id).value = value;  // as near as its steps allow
      document.querySelector(`output[for=${id}]`).value = `${value} HU`;
    }
  }
}
