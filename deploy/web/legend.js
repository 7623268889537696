// The classes of the model: colour, name, share of the picture, and a switch each.

export class Legend {
  hidden = new Set();
  #outputs = [];

  /** `changed` is called after a switch. */
  constructor(element, changed) { this.element = element; this.changed = changed; }

  /** Classes of a manifest. */
  set classes(classes) {
    this.hidden.clear();
    this.#outputs = [];
    this.element.replaceChildren(...classes.map((entry) => this.#row(entry)));
  }

  /** Shares 0..1 by class id. */
  set areas(shares) {
    shares.forEach((share, id) => { this.#outputs[id].value = `${(100 * share).toFixed(1)} %`; });
  }

  #row({ id, name, colour }) {
    const label = document.createElement("label"), box = document.createElement("input");
    const text = document.createElement("span"), share = document.createElement("output");
    Object.assign(box, { type: "checkbox", checked: true });
    box.onchange = () => { box.checked ? this.hidden.delete(id) : this.hidden.add(id); this.changed(); };
    box.style.setProperty("--colour", `rgb(${colour.join(" ")})`);
    Object.assign(text, { className: "name", textContent: name, title: name });
    this.#outputs[id] = share;
    label.append(box, text, share);
    return label;
  }
}
