// Editor of a search space: a row per hyperparameter, with the kind of its values and what they are.

import { element, setAttribute, setText } from "./dom.js";

const KINDS = [
  ["loguniform", "numbers, logarithmic"],
  ["uniform", "numbers"],
  ["int", "whole numbers"],
  ["choice", "one of a list"],
  ["fixed", "one value"],
];
const PARTS = { loguniform: ["low", "high"], uniform: ["low", "high"], int: ["low", "high", "step"], choice: ["values"], fixed: ["value"] };
const LABELS = { low: "Low", high: "High", step: "Step (optional)", values: "Values, separated by commas", value: "Value" };

let made = 0;

class Invalid extends Error {
  constructor(part, message) {
    super(message);
    this.part = part;
  }
}

// A value as users write it: JSON, or else a text.
function value(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text.trim();
  }
}

function list(text) {
  let values;
  try {
    values = JSON.parse(`[${text}]`);
  } catch {
    values = text.split(",").map(value);
  }
  if (!values.length || values.includes("")) throw new Invalid("values", "values must be a list such as 16, 32, 64");
  if (new Set(values.map((each) => JSON.stringify(each))).size < values.length) throw new Invalid("values", "values must differ");
  return values;
}

function number(text, part, whole) {
  const parsed = Number(text);
  if (text.trim() === "" || !Number.isFinite(parsed)) throw new Invalid(part, `${part} must be a number such as ${whole ? "16" : "0.01"}`);
  if (whole && !Number.isInteger(parsed)) throw new Invalid(part, `${part} must be a whole number, got ${text.trim()}`);
  return parsed;
}

// The entry of a row as the REST API has it. Throws what is wrong about a part.
export function entry(kind, texts) {
  if (kind === "fixed") {
    if (texts.value.trim() === "") throw new Invalid("value", "value must not be empty");
    return { kind, value: value(texts.value) };
  }
  if (kind === "choice") return { kind, values: list(texts.values) };
  const whole = kind === "int";
  const [low, high] = ["low", "high"].map((part) => number(texts[part], part, whole));
  if (kind === "loguniform" && low <= 0) throw new Invalid("low", `low must be above 0 for a logarithmic range, got ${low}`);
  if (low >= high) throw new Invalid("high", `high must be above low, got ${high}`);
  if (!whole || !texts.step?.trim()) return { kind, low, high };
  const step = number(texts.step, "step", true);
  if (step < 1) throw new Invalid("step", `step must be above 0, got ${step}`);
  return { kind, low, high, step };
}

const written = (content) => (typeof content === "string" && value(content) === content ? content : JSON.stringify(content));

// The texts of an entry's parts, such that each kind starts with what the entry of another kind suggests.
function texts({ kind, low, high, step, values, value: single }) {
  const known = values ?? (single === undefined ? [] : [single]);
  const numbers = known.filter((each) => typeof each === "number");
  const ends = numbers.length ? [Math.min(...numbers), Math.max(...numbers)] : ["", ""];
  return {
    low: String(low ?? ends[0]), high: String(high ?? ends[1]), step: String(step ?? ""),
    values: known.length ? known.map(written).join(", ") : kind && low !== undefined ? `${low}, ${high}` : "",
    value: known.length ? written(known[0]) : String(low ?? ""),
  };
}

class Row {
  constructor(name, document, { changed, removed, reason }) {
    made += 1;
    Object.assign(this, { id: `space-${made}`, kind: document.kind ?? "loguniform", texts: texts(document), changed, inputs: {} });
    this.name = element("input", { id: `${this.id}-name`, value: name, autocomplete: "off", spellcheck: "false", "aria-label": `Name of hyperparameter ${made}`, "aria-describedby": `${this.id}-error`, oninput: () => { this.label(); changed(); } });
    this.select = element("select", { "aria-describedby": `${this.id}-error`, onchange: () => { this.kind = this.select.value; this.parts(); changed(); } },
      ...KINDS.map(([kind, label]) => element("option", { value: kind, selected: kind === this.kind }, label)));
    this.box = element("div", { class: "values" });
    this.error = element("p", { class: "field-error", id: `${this.id}-error` });
    this.remove = element("button", { type: "button", class: "small", onclick: () => removed(this) }, "Remove");
    const hint = reason ? [element("p", { class: "hint", id: `${this.id}-hint` }, reason)] : [];
    this.hint = hint.length ? ` ${this.id}-hint` : "";
    this.node = element("tr", {}, ...[[this.name], [this.select], [this.box, ...hint, this.error], [this.remove]].map((content) => element("td", {}, ...content)));
    this.parts();
    this.label();
  }

  label() {
    const name = this.name.value.trim() || "the hyperparameter";
    setAttribute(this.select, "aria-label", `Kind of the values of ${name}`);
    setAttribute(this.remove, "aria-label", `Remove ${name}`);
    setAttribute(this.box, "role", "group");
    setAttribute(this.box, "aria-label", `Values of ${name}`);
  }

  parts() {
    this.inputs = Object.fromEntries(PARTS[this.kind].map((part) => {
      const id = `${this.id}-${part}`;
      const input = element("input", {
        id, value: this.texts[part], autocomplete: "off", spellcheck: "false", "aria-describedby": `${this.id}-error${this.hint}`,
        inputmode: ["values", "value"].includes(part) ? null : "decimal",
        oninput: () => { this.texts[part] = input.value; this.changed(); },
      });
      return [part, input];
    }));
    this.box.replaceChildren(...Object.entries(this.inputs).map(([part, input]) => element("span", {}, element("label", { for: input.id }, LABELS[part]), input)));
    this.fail(null);
  }

  // Show an error beside a part of the row; without a message, none is shown.
  fail(part, message = "") {
    for (const input of [this.name, ...Object.values(this.inputs)]) input.removeAttribute("aria-invalid");
    if (message) (this.inputs[part] ?? this.name).setAttribute("aria-invalid", "true");
    setText(this.error, message);
  }

  read(taken) {
    this.fail(null);
    const name = this.name.value.trim();
    try {
      if (!name) throw new Invalid("name", "name must not be empty");
      if (taken.has(name)) throw new Invalid("name", `name must occur once, got ${name} again`);
      return [name, entry(this.kind, this.texts)];
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      this.fail(error.part, `${error.message}.`);
      return null;
    }
  }
}

export class Space {
  constructor(body, changed) {
    Object.assign(this, { body, changed, rows: [] });
  }

  // Replace all rows. `reasons` explain entries by name.
  fill(space, reasons = {}) {
    this.rows = [];
    this.body.replaceChildren();
    for (const [name, document] of Object.entries(space)) this.add(name, document, reasons[name]);
    this.changed();
  }

  add(name = "", document = {}, reason = "") {
    const row = new Row(name, document, { changed: this.changed, removed: (each) => this.drop(each), reason });
    this.rows.push(row);
    this.body.append(row.node);
    return row;
  }

  drop(row) {
    const place = this.rows.indexOf(row);
    this.rows.splice(place, 1);
    row.node.remove();
    (this.rows[place] ?? this.rows[place - 1])?.name.focus();
    this.changed();
  }

  // The space by name, or null where a row is not valid; its error is shown beside it.
  read() {
    const taken = new Set();
    const entries = this.rows.map((row) => {
      const read = row.read(taken);
      if (read) taken.add(read[0]);
      return read;
    });
    return entries.includes(null) ? null : Object.fromEntries(entries);
  }

  // Show a message beside the row of the hyperparameter that it names; false if there is none.
  fail(message) {
    const row = this.rows.find(({ name }) => name.value.trim() && message.includes(`'${name.value.trim()}'`));
    const part = /^(low|high|step|values|value)\b/.exec(message)?.[1];
    row?.fail(part, message);
    return row !== undefined;
  }
}
