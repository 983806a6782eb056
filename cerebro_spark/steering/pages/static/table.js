// Table of configurations: sorted, filtered, and rendered only where it is visible.
//
// The keyboard follows the grid pattern: the table is one stop of the Tab key, arrow keys move within it.

import { byId, element, setAttribute, setText } from "./dom.js";
import { number, param } from "./format.js";
import { byValue } from "./curves.js";
import { paintSwatch, swatch } from "./palette.js";

const ROW = 36;
const SPARE = 6;
// Columns of params; the details of a configuration list all.
const PARAMS = 8;
const MARKS = { running: "▶", paused: "❚❚", stopped: "■", finished: "✓", diverged: "✕", failed: "✕", waiting: "…" };

const ACTIONS = [
  { name: "stop", label: "Stop" },
  { name: "pause", label: "Pause" },
  { name: "prioritise", label: "Prioritise" },
  { name: "clone", label: "Clone" },
  { name: "extend", label: "Extend" },
];

const epochs = ({ done, granted, owed }) => `${done} of ${granted}${owed ? ` + ${owed}` : ""}`;
const ended = (row) => !["running", "paused", "waiting"].includes(row.status);

// Reason why a control does not apply to a configuration, or an empty text.
function obstacle(action, row, { editor, isOver }) {
  if (!editor) return "Your role is viewer: an editor may do this";
  if (isOver()) return "The search has ended: drill down to train more";
  if (action === "clone") return row.done ? "" : "It has not finished an epoch yet";
  if (action === "extend") return !ended(row) || ["stopped", "finished"].includes(row.status) ? "" : `It has ended: ${row.status}`;
  return ended(row) ? `It has ended: ${row.status}` : "";
}

export class Table {
  constructor({ editor, isOver, onAction, onOpen, strokeOf }) {
    Object.assign(this, { editor, isOver, onAction, onOpen, strokeOf });
    this.scroller = byId("configurations-scroller");
    this.grid = byId("configurations");
    this.head = this.grid.tHead;
    this.body = this.grid.tBodies[0];
    this.spacers = [0, 1].map(() => element("tr", { "aria-hidden": "true", class: "spacer" }, element("td", {})));
    this.body.replaceChildren(...this.spacers);
    this.rows = [];
    this.shown = [];
    this.rendered = new Map();
    this.sort = { column: "best", descending: false };
    this.active = { id: null, place: 0 };
    this.columns = [];
    this.scroller.addEventListener("scroll", () => requestAnimationFrame(() => this.render()), { passive: true });
    new ResizeObserver(() => this.render()).observe(this.scroller);
    this.grid.addEventListener("keydown", (event) => this.press(event));
    this.grid.addEventListener("focusin", (event) => this.focused(event));
  }

  // The columns depend on the metric and on the params that the configurations have.
  build({ metric, best, larger }) {
    this.larger = larger;
    const names = new Set();
    for (const row of this.rows) for (const name of Object.keys(row.params)) names.add(name);
    const values = (name) => new Set(this.rows.map((row) => JSON.stringify(row.params[name])));
    const params = [...names].sort((one, other) => (values(other).size > 1) - (values(one).size > 1)).slice(0, PARAMS);
    const columns = [
      { name: "id", width: 130, label: "Configuration", value: (row) => row.id },
      { name: "status", width: 235, label: "Status", value: (row) => row.status },
      { name: "actions", width: 325, label: "Actions" },
      { name: "last", width: 110, label: metric, value: (row) => row.last, text: (row) => number(row.last), numeric: true, better: true },
      { name: "best", width: 90, label: best, value: (row) => row.best, text: (row) => (Number.isNaN(row.best) ? "" : number(row.best)), numeric: true, better: true },
      { name: "epochs", width: 110, label: "Epochs", value: (row) => row.done, text: epochs, numeric: true },
      ...params.map((name) => ({
        name: `param ${name}`, width: 95, label: name, value: (row) => row.params[name], text: (row) => (name in row.params ? param(row.params[name]) : ""),
        numeric: this.rows.every((row) => !(name in row.params) || typeof row.params[name] === "number"),
      })),
      { name: "owner", width: 95, label: "Owner", value: (row) => row.owner, text: (row) => row.owner || "procedure" },
      { name: "parent", width: 80, label: "Parent", value: (row) => row.parent, text: (row) => row.parent },
      { name: "reason", width: 320, label: "Reason", value: (row) => row.reason, text: (row) => row.reason },
    ];
    const shape = JSON.stringify(columns.map(({ name, label, numeric }) => [name, label, numeric]));
    this.columns = columns;
    if (shape === this.shape) return;
    this.shape = shape;
    this.headers = columns.map((column) => this.header(column));
    this.head.replaceChildren(element("tr", { "aria-rowindex": 1 }, ...this.headers));
    for (const { row } of this.rendered.values()) row.remove();
    this.rendered.clear();
    // Widths are fixed, so that columns do not move as other rows become visible.
    this.grid.querySelector("colgroup").replaceChildren(...columns.map(({ width }) => {
      const column = element("col");
      column.style.width = `${width}px`;
      return column;
    }));
    this.grid.style.width = `${columns.reduce((sum, { width }) => sum + width, 0)}px`;
    for (const spacer of this.spacers) spacer.firstChild.colSpan = columns.length;
    setAttribute(this.grid, "aria-colcount", columns.length);
  }

  header(column) {
    const inner = column.value
      ? element("button", { type: "button", class: "sort", tabindex: -1, onclick: () => this.sortBy(column) }, column.label, element("span", { class: "arrow", "aria-hidden": "true" }))
      : column.label;
    return element("th", { scope: "col", class: column.numeric ? "numeric" : "", tabindex: column.value ? null : -1 }, inner);
  }

  sortBy(column) {
    const same = this.sort.column === column.name;
    this.sort = { column: column.name, descending: same && !this.sort.descending };
    this.arrange();
  }

  // `best` is the title of the column with the best value of a configuration.
  update(rows, { metric, best, larger, keep }) {
    this.rows = rows;
    this.keep = keep;
    this.build({ metric, best, larger });
    this.arrange();
  }

  arrange() {
    const column = this.columns.find(({ name }) => name === this.sort.column) ?? this.columns[0];
    const text = new Intl.Collator("en", { numeric: true }).compare;
    const plain = (value) => (typeof value === "string" ? value : param(value ?? ""));
    const values = byValue(column.better && this.larger);
    const compare = column.numeric ? (one, other) => values(column.value(one) ?? NaN, column.value(other) ?? NaN) : (one, other) => text(plain(column.value(one)), plain(column.value(other)));
    const sign = this.sort.descending ? -1 : 1;
    this.shown = this.rows.filter(this.keep).sort((one, other) => sign * compare(one, other) || one.place - other.place);
    this.columns.forEach(({ name }, place) => {
      const sorted = name === column.name;
      setAttribute(this.headers[place], "aria-sort", sorted ? (this.sort.descending ? "descending" : "ascending") : null);
    });
    setAttribute(this.grid, "aria-rowcount", this.shown.length + 1);
    setText(byId("configurations-count"), this.shown.length === this.rows.length ? `${this.rows.length} configurations` : `${this.shown.length} of ${this.rows.length} configurations`);
    this.render();
  }

  render() {
    if (!this.columns.length) return;
    const focus = this.body.contains(document.activeElement);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - SPARE);
    const last = Math.min(this.shown.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW) + SPARE);
    const wanted = this.shown.slice(first, last);
    const ids = new Set(wanted.map(({ id }) => id));
    for (const [id, { row }] of this.rendered) {
      if (ids.has(id)) continue;
      row.remove();
      this.rendered.delete(id);
    }
    let after = this.spacers[0];
    wanted.forEach((item, place) => {
      const entry = this.rendered.get(item.id) ?? this.make(item.id);
      this.fill(entry, item, first + place);
      if (after.nextSibling !== entry.row) after.after(entry.row);
      after = entry.row;
    });
    this.spacers[0].firstChild.style.height = `${first * ROW}px`;
    this.spacers[1].firstChild.style.height = `${(this.shown.length - last) * ROW}px`;
    this.spacers.forEach((spacer, place) => { spacer.hidden = place ? last === this.shown.length : first === 0; });
    this.tabStop();
    // A row that moved lost the focus; one that left passes it to the table.
    if (focus && !this.body.contains(document.activeElement)) (this.activeElement() ?? this.grid).focus({ preventScroll: true });
  }

  make(id) {
    const cells = this.columns.map(({ numeric }) => element("td", { class: numeric ? "numeric" : "", tabindex: -1 }));
    const mark = swatch(null);
    const name = element("button", { type: "button", class: "link", tabindex: -1, onclick: () => this.onOpen(id) }, id);
    cells[0] = element("th", { scope: "row" }, mark, name);
    const buttons = ACTIONS.map(({ name: action }) => element("button", { type: "button", class: "small", tabindex: -1, onclick: (event) => this.act(event.currentTarget, id) }));
    cells[2] = element("td", { class: "actions" }, ...buttons);
    const stops = [name, cells[1], ...buttons, ...cells.slice(3)];
    const entry = { row: element("tr", { "data-id": id }, ...cells), cells, mark, buttons, stops };
    this.rendered.set(id, entry);
    return entry;
  }

  act(button, id) {
    if (button.getAttribute("aria-disabled") !== "true") this.onAction(button.dataset.action, id);
  }

  fill(entry, item, place) {
    setAttribute(entry.row, "aria-rowindex", place + 2);
    paintSwatch(entry.mark, this.strokeOf(item.id));
    const notes = [item.is_prioritised && "prioritised", item.pending && `${item.pending} pending`].filter(Boolean);
    const status = [`${MARKS[item.status] ?? "✕"} ${item.status}`, ...notes].join(", ");
    setText(entry.cells[1], status);
    setAttribute(entry.cells[1], "title", notes.length ? status : null);
    entry.cells[1].className = `status status-${ended(item) ? "ended" : item.status}`;
    ACTIONS.forEach(({ name, label }, at) => {
      const resumes = name === "pause" && item.status === "paused";
      const button = entry.buttons[at];
      const reason = obstacle(name, item, this);
      button.dataset.action = resumes ? "resume" : name;
      setText(button, resumes ? "Resume" : label);
      setAttribute(button, "aria-label", `${resumes ? "Resume" : label} ${item.id}${reason ? `, not available: ${reason}` : ""}`);
      setAttribute(button, "aria-disabled", reason ? "true" : null);
      setAttribute(button, "title", reason || null);
    });
    this.columns.forEach(({ text }, at) => {
      if (!text) return;
      const shown = String(text(item));
      setText(entry.cells[at], shown);
      setAttribute(entry.cells[at], "title", shown.length > 14 ? shown : null);
    });
  }

  stops(row) {
    return row === -1 ? this.headers.map((cell) => cell.querySelector("button") ?? cell) : this.rendered.get(this.shown[row]?.id)?.stops;
  }

  activeRow() {
    return this.active.id === null ? -1 : this.shown.findIndex(({ id }) => id === this.active.id);
  }

  activeElement() {
    if (this.active.id === null) return this.stops(-1)[this.active.place] ?? null;
    return this.rendered.get(this.active.id)?.stops[this.active.place] ?? null;
  }

  // Exactly one element of the table is a stop of the Tab key.
  tabStop() {
    if (this.stopped) this.stopped.tabIndex = -1;
    this.stopped = this.activeElement() ?? this.stops(-1)[0];
    this.stopped.tabIndex = 0;
  }

  focused(event) {
    const row = event.target.closest("tr");
    const id = row?.dataset.id ?? null;
    const stops = id === null ? this.stops(-1) : this.rendered.get(id)?.stops ?? [];
    const place = stops.findIndex((stop) => stop === event.target || stop.contains(event.target));
    if (place < 0) return;
    this.active = { id, place };
    this.tabStop();
  }

  press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    const rows = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page };
    const columns = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key in rows) this.move(rows[event.key]);
    else if (event.key in columns) {
      const stops = this.stops(this.activeRow()) ?? [];
      this.focus(this.active.id, Math.min(stops.length - 1, Math.max(0, this.active.place + columns[event.key])));
    } else return;
    event.preventDefault();
  }

  move(step) {
    const from = this.activeRow();
    const to = Math.min(this.shown.length - 1, Math.max(-1, from + step));
    // Header cells and rows have different numbers of stops, because a row has several buttons in one cell.
    const place = from === -1 && to >= 0 ? this.shift(this.active.place, 1) : from >= 0 && to === -1 ? this.shift(this.active.place, -1) : this.active.place;
    if (to >= 0) this.reveal(to);
    this.focus(to === -1 ? null : this.shown[to].id, place);
  }

  shift(place, direction) {
    const more = ACTIONS.length - 1;
    if (direction > 0) return place > 2 ? place + more : place;
    return place > 2 + more ? place - more : Math.min(place, 2);
  }

  reveal(row) {
    const header = this.head.offsetHeight;
    const top = row * ROW;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    const below = top + ROW + header - this.scroller.clientHeight;
    if (below > this.scroller.scrollTop) this.scroller.scrollTop = below;
    this.render();
  }

  focus(id, place) {
    this.active = { id, place };
    this.tabStop();
    this.stopped.focus({ preventScroll: true });
    this.stopped.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // After a dialog: to the control that opened it, wherever its row is now.
  restore(id, action) {
    const row = this.shown.findIndex((item) => item.id === id);
    if (row < 0) return false;
    this.reveal(row);
    const entry = this.rendered.get(id);
    const same = (button) => button.dataset.action === action || (button.dataset.action === "resume" && action === "pause") || (button.dataset.action === "pause" && action === "resume");
    (entry.buttons.find(same) ?? entry.stops[0]).focus({ preventScroll: true });
    return true;
  }
}
