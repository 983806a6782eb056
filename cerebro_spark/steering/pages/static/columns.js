// Columns of a table: which of them are features, and which are labels.

import { element } from "./dom.js";

export class Columns {
  constructor(body, changed) {
    Object.assign(this, { body, changed, boxes: [] });
  }

  // List columns {name, type}. What was chosen before stays chosen; else names that are labels by convention are.
  fill(columns, { features = [], labels = [] } = {}) {
    const before = this.read();
    const chosen = (role, defaults) => new Set(before[role].length ? before[role] : defaults);
    const last = columns.find(({ name }) => /^(label|target|class|y)s?$/i.test(name));
    const label = chosen("label", labels.length ? labels : last ? [last.name] : []);
    const feature = chosen("feature", features);
    this.boxes = [];
    this.body.replaceChildren(...columns.map(({ name, type }) => element("tr", {},
      element("th", { scope: "row" }, name), element("td", {}, type),
      element("td", {}, this.box("feature", name, feature.has(name))),
      element("td", {}, this.box("label", name, label.has(name))))));
    this.changed();
  }

  box(role, name, checked) {
    const input = element("input", { type: "checkbox", "aria-label": `${name} is a ${role}`, "aria-describedby": `${role}_columns-error`, checked, onchange: () => this.choose(role, name, input.checked) });
    this.boxes.push({ role, name, input });
    return input;
  }

  // A column cannot be both.
  choose(role, name, checked) {
    const other = this.boxes.find((each) => each.name === name && each.role !== role);
    if (checked) other.input.checked = false;
    this.changed();
  }

  read() {
    const names = (role) => this.boxes.filter((each) => each.role === role && each.input.checked).map(({ name }) => name);
    return { feature: names("feature"), label: names("label") };
  }

  focus(role) {
    this.boxes.find((each) => each.role === role)?.input.focus();
  }

  get length() {
    return this.boxes.length / 2;
  }
}
