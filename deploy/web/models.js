// The bundles of the catalog as a visitor chooses them: by domain, model and size.

function kind({ manifest: { name, target, provenance: { model } } }) {
  const words = [model.variant, model.attention].filter(Boolean).join(" ");
  return words ? `${words}, ${target.precision}` : name;
}

/** Ways to call an entry, the shortest first; no two entries share the last. */
const WAYS = [kind, (entry) => `${kind(entry)}, ${entry.manifest.name}`, (entry) => `${kind(entry)}, ${entry.id}`];

export const sizeOf = ({ manifest: { preprocess: { size } } }) => size.join("x");
export const classesOf = ({ manifest: { classes } }) => classes.map(({ name }) => name).join();
export const isCt = (entry) => entry.manifest.preprocess.hu_window !== null;

/** Choices over the bundles; `current` is one of them. */
export class Models {
  constructor(bundles) {
    this.bundles = bundles;
    this.current = bundles[0];
    this.beside = null;
  }

  /** "b0 linear, fp32", and more where that would not tell it from another of its domain and size. */
  label(entry) {
    const rivals = this.bundles.filter((other) => other !== entry && other.domain === entry.domain && sizeOf(other) === sizeOf(entry));
    return WAYS.find((way) => rivals.every((other) => way(other) !== way(entry)))(entry);
  }

  get domains() { return [...new Set(this.bundles.map((entry) => entry.domain))]; }
  get inDomain() { return this.bundles.filter((entry) => entry.domain === this.current.domain); }

  /** The first bundle of a domain. */
  first(name) { return this.bundles.find(({ domain }) => domain === name); }

  /** One entry a model: in the current size where it exists. */
  get models() {
    const found = new Map();
    for (const entry of this.inDomain)
      if (!found.has(this.label(entry)) || sizeOf(entry) === sizeOf(this.current)) found.set(this.label(entry), entry);
    return [...found.values()];
  }

  /** The current model's sizes. */
  get sizes() { return this.inDomain.filter((entry) => this.label(entry) === this.label(this.current)); }

  /** What can be shown beside it: of the same classes. */
  get others() { return this.inDomain.filter((entry) => entry !== this.current && classesOf(entry) === classesOf(this.current)); }

  /** Switch to another bundle. */
  choose(entry) {
    this.current = entry;
    if (!this.others.includes(this.beside)) this.beside = null;
  }
}
