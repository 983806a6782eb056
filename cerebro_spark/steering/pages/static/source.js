// Model of a launch: a built-in one, or an uploaded script.

import * as api from "./api.js";
import { Fields } from "./dialogs.js";
import { byId, element, setOptions, setText } from "./dom.js";
import { Request } from "./requests.js";

const LARGEST = 1 << 20;
// Settings that the form has fields for.
const KNOWN = ["num_epochs", "max_epochs", "metric", "eta", "num_configurations", "max_configurations", "population", "seed", "test_fraction", "feature_columns", "label_columns", "procedure"];

export class Model {
  // `loaded` gets the search space and settings that a model suggests, `fail` a field and the message of an error.
  constructor({ pool, changed, loaded, fail }) {
    Object.assign(this, { pool, changed, loaded, fail, models: [], script: null, extra: null, defaults: {}, turn: 0 });
    for (const radio of this.radios()) radio.addEventListener("change", () => this.choose());
    byId("builtin").addEventListener("change", () => this.show());
    byId("training").addEventListener("change", () => this.suggest());
    byId("script").addEventListener("change", () => this.upload());
  }

  radios() {
    return [...document.querySelectorAll("[name=kind]")];
  }

  get kind() {
    return this.radios().find(({ checked }) => checked).value;
  }

  // Settings that differ from those of the model, which the pool knows and uses with the procedures that have them.
  get settings() {
    const changed = Object.entries(this.extra?.read() ?? {}).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(this.defaults[name]));
    return Object.fromEntries(changed);
  }

  // Columns that a script names; those of several inputs are groups by name.
  get columns() {
    const names = (columns = []) => (Array.isArray(columns) ? columns : Object.values(columns).flat());
    return { features: names(this.defaults.feature_columns), labels: names(this.defaults.label_columns) };
  }

  async load() {
    this.models = await api.models();
    setOptions(byId("builtin"), this.models.map(({ name, title }) => [name, title]));
    this.show();
  }

  allowScripts(allowed) {
    this.allowed = allowed;
    const radio = this.radios().find(({ value }) => value === "script");
    radio.disabled = !allowed;
    if (!allowed) setText(byId("script-state"), "");
    radio.parentElement.title = allowed ? "" : "The pool takes no scripts. It does with --allow-scripts.";
    let note = byId("scripts-note");
    if (!note) {
      note = element("span", { id: "scripts-note", class: "muted" });
      radio.parentElement.append(" ", note);
    }
    setText(note, allowed ? "" : "(the pool takes no scripts: start it with --allow-scripts)");
    if (!allowed && radio.checked) {
      this.radios()[0].checked = true;
      this.choose();
    }
  }

  choose() {
    byId("builtin-fields").hidden = this.kind !== "builtin";
    byId("script-fields").hidden = this.kind !== "script";
    if (this.kind === "builtin") this.show();
    else this.accept(this.script?.result ?? {});
  }

  get model() {
    return this.models.find(({ name }) => name === byId("builtin").value);
  }

  show() {
    const { model } = this;
    if (!model) return;
    setOptions(byId("training"), model.trainings.map((name) => [name, { full: "all layers", frozen: "some layers frozen" }[name] ?? name]));
    setText(byId("builtin-hint"), `Takes a column of ${model.input === "image" ? "images" : "texts"}.`);
    this.suggest();
  }

  // Each training of a model may have a space of its own.
  suggest() {
    const { search_space: spaces = {}, settings } = this.model ?? {};
    this.accept({ search_space: spaces[byId("training").value] ?? spaces, settings });
  }

  accept({ search_space = {}, settings = {}, space = null }) {
    this.defaults = settings;
    const extra = Object.entries(settings).filter(([name]) => !KNOWN.includes(name));
    this.extra = extra.length ? new Fields(extra.map(([name, value]) => ({ name, label: name, value })), () => this.changed()) : null;
    byId("model-settings").replaceChildren(...(this.extra ? [this.extra.node] : []));
    this.loaded({ search_space, settings, procedure: settings.procedure, isHidden: space !== null && !Object.keys(search_space).length });
    this.changed();
  }

  // Show a script to its user before anything uses it.
  async upload() {
    const [file] = byId("script").files;
    this.script = null;
    this.fail("script", "");
    byId("script-shown").hidden = true;
    this.changed();
    if (!file) return;
    this.turn += 1;
    const { turn } = this;
    const say = (text) => setText(byId("script-state"), text);
    if (file.size > LARGEST) {
      this.fail("script", `script must have at most ${LARGEST.toLocaleString("en")} bytes, got ${file.size.toLocaleString("en")}.`);
      return;
    }
    say("The pool imports the script …");
    try {
      // Read once: the file may change on the disk while it is sent.
      const content = await file.arrayBuffer();
      const { sha256 } = await api.upload(new Blob([content]));
      const result = await new Request("script", { script: sha256 }, { pool: this.pool() || null }).result;
      if (turn !== this.turn) return;
      if (result.trainer === false) throw new api.RequestError(422, "script", "script must define a function trainer_fn(params).");
      this.script = { sha256, result };
      setText(byId("script-text"), result.text ?? new TextDecoder().decode(content));
      byId("script-shown").hidden = false;
      say(`${file.name} was imported, and is kept as ${sha256.slice(0, 12)}….`);
      this.accept(result);
    } catch (error) {
      if (!(error instanceof api.RequestError)) throw error;
      if (turn !== this.turn) return;
      say("");
      this.fail("script", error.message);
    }
  }

  // The source of the launch document; errors are reported by field.
  read(wrong) {
    if (this.extra && !this.extra.read()) wrong("model-settings", "");
    if (this.kind === "script") {
      if (this.script) return { script: this.script.sha256 };
      wrong("script", "script must be a file that the pool has imported. Choose one.");
      return null;
    }
    if (this.model) return { builtin: this.model.name, training: byId("training").value, weights: byId("weights").value.trim() || null };
    wrong("builtin", "builtin must be a model of the server, which has none.");
    return null;
  }
}
