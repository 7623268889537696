// A bundle's network as promises; the work is done in worker.js. Refuses to know pictures on a screen.

export class Network {
  #worker; #waiting = new Map(); #next = 0;

  /** Load the model of a catalog entry with so many threads. */
  static async open(entry, threads) {
    const network = new Network(entry, threads);
    try {
      const told = await network.#ask({ kind: "open", model: entry.model, external: entry.external, manifest: entry.manifest, threads });
      network.loadMs = told.loadMs;
      return network;
    } catch (error) {
      network.close();
      throw error;
    }
  }

  constructor(entry, threads) {
    this.entry = entry;
    this.threads = threads;
    this.#worker = new Worker("/worker.js", { type: "module" });
    this.#worker.onmessage = ({ data }) => {
      const { resolve, reject } = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (data.error) reject(new Error(data.error));
      else resolve(data);
    };
    this.#worker.onerror = (event) => this.#fail(new Error(event.message || "the worker could not start"));
  }

  /** {width, height, data: RGBA} -> {labels, times: [preprocess, inference, postprocess] ms, aroundMs}. */
  segment({ width, height, data }) {
    return this.#ask({ kind: "segment", image: { width, height, data } });
  }

  /** The network's input as it is -> its output as it is. */
  async raw(data) {
    return (await this.#ask({ kind: "raw", data })).data;
  }

  /** End the worker and its threads. */
  close() {
    this.#worker.terminate();
    this.#fail(new Error("closed"));
  }

  #ask(message) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, ...message });
    });
  }

  #fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
