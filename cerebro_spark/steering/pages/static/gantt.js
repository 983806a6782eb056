// Gantt chart of the units of each worker, on a canvas, and a table of the last unit of each worker.

import { byId, element, setAttribute, setText } from "./dom.js";
import { duration } from "./format.js";
import { colourAt } from "./palette.js";

const ROW = 30;
const AXIS = 26;
const INK = "#1c2330";
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

const describe = (unit) => {
  const work = unit.kind === "train" ? `trained epoch ${unit.epoch + 1}` : unit.kind === "validate" ? `evaluated epoch ${unit.epoch + 1}` : `${unit.kind}, epoch ${unit.epoch + 1}`;
  return `${unit.trial_id}: ${work} on shard ${unit.partition}, ${duration(unit.ended - unit.began)}, on ${unit.worker}`;
};

export class Gantt {
  constructor() {
    this.canvas = byId("gantt");
    this.note = byId("gantt-note");
    this.rows = [];
    this.chosen = null;
    this.data = { units: [], places: new Map(), span: Infinity };
    new ResizeObserver(() => this.paint()).observe(this.canvas.parentElement);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
  }

  draw(units, places, span) {
    this.data = { units, places, span };
    this.rows = [...new Set(units.map((unit) => unit.worker))].sort(new Intl.Collator("en", { numeric: true }).compare);
    this.paint();
    this.workers();
  }

  paint() {
    const { units, span } = this.data;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(280, this.canvas.parentElement.clientWidth);
    const height = Math.max(1, this.rows.length) * ROW + AXIS;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const end = units.reduce((last, unit) => Math.max(last, unit.ended), 0);
    const start = Math.max(units.reduce((first, unit) => Math.min(first, unit.began), end), end - span);
    const margin = Math.min(160, 12 + this.rows.reduce((most, row) => Math.max(most, pen.measureText(row).width), 0));
    this.view = { start, end, margin, scale: (width - margin - 24) / Math.max(end - start, 1e-6), width };
    this.grid(pen, height);
    this.bars(pen);
    const amount = `${units.length} ${units.length === 1 ? "unit" : "units"} on ${this.rows.length} ${this.rows.length === 1 ? "worker" : "workers"}`;
    setAttribute(this.canvas, "aria-label", `Gantt chart of ${amount}, ${duration(end - start)} of the run. Left and right arrow keys read the units.`);
    if (this.chosen === null) setText(this.note, units.length ? `${amount}. Point at a bar, or use the arrow keys, to read it.` : "No unit has ended yet.");
  }

  x(seconds) {
    return this.view.margin + (seconds - this.view.start) * this.view.scale;
  }

  grid(pen, height) {
    const { start, end, scale, width, margin } = this.view;
    const step = STEPS.find((each) => each * scale > 80) ?? STEPS.at(-1);
    pen.strokeStyle = "#dfe3ea";
    pen.fillStyle = INK;
    pen.textAlign = "center";
    for (let tick = Math.ceil(start / step); tick * step <= end; tick += 1) {
      const at = Math.round(this.x(tick * step)) + 0.5;
      pen.beginPath();
      pen.moveTo(at, 0);
      pen.lineTo(at, height - AXIS);
      pen.stroke();
      const label = duration(tick * step);
      if (at + pen.measureText(label).width / 2 < width) pen.fillText(label, at, height - AXIS / 2);
    }
    pen.textAlign = "right";
    this.rows.forEach((row, place) => pen.fillText(row, margin - 8, place * ROW + ROW / 2, margin - 12));
  }

  bars(pen) {
    const { units, places } = this.data;
    const line = new Map(this.rows.map((row, place) => [row, place]));
    // Bars that would cover the same pixel of a row are drawn once.
    const covered = new Map();
    pen.textAlign = "center";
    for (const unit of units) {
      if (unit.ended < this.view.start) continue;
      const left = Math.max(this.view.margin, this.x(unit.began));
      const right = Math.max(left + 1, this.x(unit.ended));
      if (Math.floor(right) === covered.get(unit.worker) && right - left < 1.5) continue;
      covered.set(unit.worker, Math.floor(right));
      const top = line.get(unit.worker) * ROW + 4;
      pen.fillStyle = colourAt(places.get(unit.trial_id) ?? 0);
      // An evaluation is half as high as training.
      if (unit.kind === "train") pen.fillRect(left, top, right - left, ROW - 8);
      else pen.fillRect(left, top + (ROW - 8) / 2, right - left, (ROW - 8) / 2);
      if (right - left > 3) {
        pen.fillStyle = "#fff";
        pen.fillRect(right - 1, top, 1, ROW - 8);
      }
      if (unit.kind === "train" && right - left > pen.measureText(unit.trial_id).width + 6) {
        pen.fillStyle = "#fff";
        pen.fillText(unit.trial_id, (left + right) / 2, top + (ROW - 8) / 2 + 0.5);
      }
      if (unit === this.chosen) {
        pen.strokeStyle = INK;
        pen.lineWidth = 2;
        pen.strokeRect(left, top - 2, right - left, ROW - 4);
        pen.lineWidth = 1;
      }
    }
  }

  choose(unit) {
    this.chosen = unit;
    this.paint();
    setText(this.note, describe(unit));
  }

  point(event) {
    const seconds = this.view.start + (event.offsetX - this.view.margin) / this.view.scale;
    const worker = this.rows[Math.floor(event.offsetY / ROW)];
    const unit = this.data.units.find((each) => each.worker === worker && each.began <= seconds && seconds <= each.ended);
    if (unit && unit !== this.chosen) this.choose(unit);
  }

  press(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const { units } = this.data;
    if (!(event.key in steps) || !units.length) return;
    event.preventDefault();
    const at = this.chosen === null ? units.length : units.indexOf(this.chosen);
    this.choose(units[Math.min(units.length - 1, Math.max(0, at + steps[event.key]))]);
  }

  // Placement: the configuration that each worker trained last.
  workers() {
    const last = new Map();
    const counts = new Map();
    for (const unit of this.data.units) {
      counts.set(unit.worker, (counts.get(unit.worker) ?? 0) + 1);
      if (!(last.get(unit.worker)?.ended > unit.ended)) last.set(unit.worker, unit);
    }
    byId("workers").tBodies[0].replaceChildren(...this.rows.map((worker) => {
      const unit = last.get(worker);
      const cells = [unit.trial_id, `${unit.kind === "train" ? "training" : "evaluation"} of epoch ${unit.epoch + 1}, shard ${unit.partition}`, duration(unit.ended), counts.get(worker)];
      return element("tr", {}, element("th", { scope: "row" }, worker), ...cells.map((cell) => element("td", {}, String(cell))));
    }));
  }
}
