// Table of suspicious rows, which are relabelled by keyboard or with buttons.

import { byId, element, setAttribute, setText } from "./dom.js";
import { number } from "./format.js";

const EXTRAS = { nearest_id: "Nearest row", group: "Group", train_id: "Training row", target_id: "Explains", kind: "Effect" };
const SLICE = { predicate: "Rows", size: "Size", average_error: "Average error", max_error: "Largest error", score: "Score" };

const text = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? number(value) : String(value));
// The number 7 and the text "7" are different ids.
const keyOf = (id) => JSON.stringify(id);

export class Suspicious {
  // `decide(row, label)` and `undo(row)` store what the user decides.
  constructor({ editor, decide, undo }) {
    Object.assign(this, { editor, decide, undo });
    this.table = byId("rows");
    this.rows = [];
    this.addresses = [];
    this.corrections = new Map();
    this.active = 0;
    this.table.addEventListener("keydown", (event) => this.press(event));
    this.table.addEventListener("focusin", (event) => {
      const place = this.lines.indexOf(event.target.closest("tr"));
      if (place >= 0) this.activate(place);
    });
  }

  show({ rows, classes = [] }, kind) {
    this.addresses.splice(0).forEach((each) => URL.revokeObjectURL(each));
    this.rows = rows;
    this.classes = classes;
    this.relabels = this.editor && kind !== "slices" && kind !== "leaks";
    this.active = 0;
    const slices = kind === "slices";
    this.columns = slices ? Object.entries(SLICE).map(([name, label]) => ({ label, of: (row) => text(row[name]) })) : this.columnsOf(rows);
    const labels = [...this.columns.map(({ label }) => label), ...(slices || kind === "leaks" ? [] : ["Decision"])];
    this.table.tHead.replaceChildren(element("tr", {}, ...labels.map((label) => element("th", { scope: "col" }, label))));
    this.lines = rows.map((row, place) => this.line(row, place, labels.includes("Decision")));
    this.table.tBodies[0].replaceChildren(...this.lines);
    byId("results").hidden = false;
    if (byId("rows-hint")) byId("rows-hint").hidden = !this.relabels;
    this.draw();
  }

  columnsOf(rows) {
    const has = (name) => rows.some((row) => row[name] !== undefined && row[name] !== null);
    const values = (row) => Object.entries(row.values ?? {}).map(([name, value]) => `${name} = ${text(value)}`).join(", ");
    return [
      ...(has("rank") ? [{ label: "Rank", of: (row) => text(row.rank) }] : []),
      { label: "Row", of: (row) => text(row.id) },
      ...(has("image") ? [{ label: "Image", node: (row) => (row.image ? element("img", { src: this.address(row.image), alt: `Image of row ${row.id}` }) : "") }] : []),
      ...(rows.some(values) ? [{ label: "Values", of: values, name: "values" }] : []),
      ...Object.entries(EXTRAS).filter(([name]) => has(name)).map(([name, label]) => ({ label, of: (row) => text(row[name]) })),
      { label: "Given", of: (row) => text(row.given_label) },
      ...(has("suggested_label") ? [{ label: "Suggested", of: (row) => text(row.suggested_label) }] : []),
      { label: "Score", of: (row) => text(row.score) },
    ];
  }

  // The content security policy allows images of the page's own blobs, and no data: addresses.
  address(base64) {
    const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
    this.addresses.push(URL.createObjectURL(new Blob([bytes], { type: "image/png" })));
    return this.addresses.at(-1);
  }

  line(row, place, decides) {
    const cells = this.columns.map(({ of, node, name }) => element("td", { class: name ?? "" }, node ? node(row) : of(row)));
    if (decides) cells.push(element("td", { class: "decision" }, element("span", {}), ...(this.relabels ? this.controls(row, place) : [])));
    return element("tr", { tabindex: this.relabels ? -1 : null, "aria-label": this.relabels ? `Row ${row.id}` : null }, ...cells);
  }

  controls(row, place) {
    const button = (label, name, run) => element("button", { type: "button", class: "small", tabindex: -1, "data-decision": name, "aria-label": `${label}, row ${row.id}`, onclick: () => run() }, label);
    const found = [];
    if (row.suggested_label !== undefined && row.suggested_label !== null) found.push(button(`Relabel as ${row.suggested_label}`, "suggested", () => this.choose(place, row.suggested_label)));
    if (row.given_label !== undefined && row.given_label !== null) found.push(button("Keep", "keep", () => this.choose(place, row.given_label)));
    if (this.classes.length) {
      const others = element("select", { tabindex: -1, "aria-label": `Other label, row ${row.id}` }, element("option", { value: "" }, "Other …"), ...this.classes.map((each, at) => element("option", { value: at }, String(each))));
      others.addEventListener("change", () => { if (others.value !== "") this.choose(place, this.classes[Number(others.value)]); others.value = ""; });
      found.push(others);
    }
    return [...found, button("Undo", "undo", () => this.undo(row))];
  }

  async choose(place, label) {
    // The focus moves at once, so that the next key is not taken for the row whose answer is on its way.
    this.focus(Math.min(place + 1, this.lines.length - 1));
    if (!(await this.decide(this.rows[place], label))) this.focus(place);
  }

  // Show the decisions that the server has.
  update(corrections) {
    this.corrections = new Map(corrections.map((each) => [keyOf(each.row), each]));
    this.draw();
  }

  known(row) {
    return this.corrections.get(keyOf(row.id));
  }

  draw() {
    this.lines?.forEach((line, place) => {
      const mark = line.querySelector(".decision span");
      if (!mark) return;
      const known = this.known(this.rows[place]);
      line.classList.toggle("decided", Boolean(known));
      const kept = known && text(known.label) === text(this.rows[place].given_label);
      setText(mark, known ? `${kept ? "✓ kept" : `✎ ${text(known.label)}`} by ${known.user} ` : "");
      const undo = line.querySelector("[data-decision=undo]");
      if (undo) undo.hidden = !known;
      setAttribute(line, "tabindex", this.relabels ? (place === this.active ? 0 : -1) : null);
      for (const control of line.querySelectorAll(".decision button, .decision select")) control.tabIndex = place === this.active ? 0 : -1;
    });
  }

  activate(place) {
    this.active = place;
    this.draw();
  }

  focus(place) {
    this.activate(place);
    this.lines[place]?.focus();
    this.lines[place]?.scrollIntoView({ block: "nearest" });
  }

  press(event) {
    if (!this.relabels || event.altKey || event.ctrlKey || event.metaKey || event.target.tagName === "SELECT") return;
    const place = this.active;
    const row = this.rows[place];
    const moves = { ArrowUp: place - 1, ArrowDown: place + 1, Home: 0, End: this.lines.length - 1 };
    const key = event.key.toLowerCase();
    if (event.key in moves) this.focus(Math.min(this.lines.length - 1, Math.max(0, moves[event.key])));
    else if (key === "s" && row.suggested_label !== null && row.suggested_label !== undefined) this.choose(place, row.suggested_label);
    else if (key === "k" && row.given_label !== null && row.given_label !== undefined) this.choose(place, row.given_label);
    else if (key === "u" && this.known(row)) this.undo(row);
    else if (/^[0-9]$/.test(key) && this.classes.includes(Number(key))) this.choose(place, Number(key));
    else return;
    event.preventDefault();
  }
}
