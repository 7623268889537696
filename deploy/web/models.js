// The bundles of the catalog as a visitor chooses them: by domain, model and size.

/** "b0 linear, fp32": what tells a domain's models apart. */
export function label({ manifest: { name, target, provenance: { model } } }) {
  const words = [model.variant, model.attention].filter(Boolean).join(" ");
  return words ? `${words}, ${target.precision}` : name;
}

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

  get domains() { return [...new Set(this.bundles.map((entry) => entry.domain))]; }
  get inDomain() { return this.bundles.filter((entry) => entry.domain === this.current.domain); }

  /** The first bundle of a domain. */
  first(name) { return this.bundles.find(({ domain }) => domain === name); }

  /** One entry a model: in the current size where it exists. */
  get models() {
    const found = new Map();
    for (const entry of this.inDomain)
      if (!found.has(label(entry)) || sizeOf(entry) === sizeOf(this.current)) found.set(label(entry), entry);
    found.set(label(this.current), this.current);
    return [...found.values()];
  }

  /** The current model's sizes. */
  get sizes() { return this.inDomain.filter((entry) => label(entry) === label(this.current)); }

  /** What can be shown beside it: of the same classes. */
  get others() { return this.inDomain.filter((entry) => entry !== this.current && classesOf(entry) === classesOf(this.current)); }

  /** Switch to another bundle; returns whether the domain changed. */
  choose(entry) {
    const moved = entry.domain !== this.current.domain;
    this.current = entry;
    if (!this.others.includes(this.beside)) this.beside = null;
    return moved;
  }
}
