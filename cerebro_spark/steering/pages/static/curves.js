// Learning curves of one metric: a colour and a dash per configuration, and a legend with the values under the pointer.

import uPlot from "./uPlot.esm.js";
import { byId, element, setAttribute, setText } from "./dom.js";
import { number, toNumber } from "./format.js";
import { Palette, paintSwatch, swatch } from "./palette.js";

const HEIGHT = 340;
const INK = "#1c2330";
const GRID = { stroke: "#dfe3ea", width: 1 };

// The best value of a curve, by the direction of the metric.
export function best(values, larger) {
  let result = NaN;
  for (const value of values) {
    const candidate = toNumber(value);
    if (Number.isFinite(candidate) && !(larger ? candidate <= result : candidate >= result)) result = candidate;
  }
  return result;
}

// Compare by a metric, configurations without a value last.
export function byValue(larger) {
  return (one, other) => {
    if (Number.isNaN(one)) return Number.isNaN(other) ? 0 : 1;
    if (Number.isNaN(other)) return -1;
    return larger ? other - one : one - other;
  };
}

export class Curves {
  constructor() {
    this.palette = new Palette();
    this.box = byId("curves");
    this.legend = byId("legend");
    this.plot = null;
    this.ids = [];
    this.hidden = new Set();
    this.entries = new Map();
    new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: HEIGHT })).observe(this.box);
  }

  width() {
    return Math.max(280, this.box.clientWidth);
  }

  // `curves` maps ids to {epochs, values}, `places` all ids to their place in the order of starts, and `parents` the ids of
  // clones to {id, epoch}.
  draw({ curves, places, parents, metric, best: word, larger, limit, logarithmic }) {
    const order = byValue(larger);
    const ranked = [...curves].map(([id, curve]) => ({ id, curve, best: best(curve.values, larger) }))
      .sort((one, other) => order(one.best, other.best) || places.get(one.id) - places.get(other.id));
    const drawn = ranked.slice(0, limit);
    this.palette.assign(new Map(drawn.map(({ id }) => [id, places.get(id) ?? 0])));
    this.say(ranked, drawn.length, { metric, word, logarithmic });
    const ids = drawn.map(({ id }) => id).sort((one, other) => places.get(one) - places.get(other));
    const data = this.columns(ids, { curves, parents, logarithmic });
    const shape = JSON.stringify([ids, metric, logarithmic]);
    if (shape === this.shape && this.plot) {
      this.plot.setData(data, !this.zoomed);
      if (this.zoomed) this.plot.redraw();
    } else this.build(ids, data, metric, logarithmic);
    this.shape = shape;
    this.list(drawn.map(({ id }) => id));
  }

  say(ranked, drawn, { metric, word, logarithmic }) {
    const first = ranked.find((each) => Number.isFinite(each.best));
    const amount = drawn < ranked.length ? `the ${drawn} ${word} of ${ranked.length} curves` : `${drawn} ${drawn === 1 ? "curve" : "curves"}`;
    const dropped = logarithmic && ranked.slice(0, drawn).some(({ curve }) => curve.values.some((value) => toNumber(value) <= 0));
    setText(byId("curves-note"), ranked.length ? `Shows ${amount}. Drag to zoom, double-click to reset.${dropped ? " The log scale leaves out values that are not positive." : ""}` : "No epoch has ended yet.");
    const label = first ? `Learning curves of ${metric}, ${amount}, ${word} first: ${first.id} with ${number(first.best)}.` : `Learning curves of ${metric}: no values yet.`;
    setAttribute(this.box, "aria-label", label);
  }

  // A clone begins at the epoch of its parent that it was cloned from, with the value that the parent had there.
  columns(ids, { curves, parents, logarithmic }) {
    const start = (id, depth = 0) => (parents.has(id) && depth < 100 ? parents.get(id).epoch + start(parents.get(id).id, depth + 1) : 0);
    const points = ids.map((id) => {
      const { epochs, values } = curves.get(id);
      const parent = curves.get(parents.get(id)?.id);
      const donor = parent ? parent.values[parent.epochs.indexOf(parents.get(id).epoch)] : undefined;
      const first = start(id);
      const own = epochs.map((epoch, place) => [first + epoch, toNumber(values[place])]);
      return donor === undefined ? own : [[first, toNumber(donor)], ...own];
    });
    const last = points.flat().reduce((most, [epoch]) => Math.max(most, epoch), 0);
    const lines = points.map((line) => {
      const column = new Array(last).fill(null);
      for (const [epoch, value] of line) if (Number.isFinite(value) && !(logarithmic && value <= 0)) column[epoch - 1] = value;
      return column;
    });
    return [Array.from({ length: last }, (_, place) => place + 1), ...lines];
  }

  build(ids, data, metric, logarithmic) {
    this.plot?.destroy();
    this.ids = ids;
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: INK, font, labelFont: `600 ${font}`, grid: GRID, ticks: GRID };
    this.plot = new uPlot(
      {
        width: this.width(),
        height: HEIGHT,
        legend: { show: false },
        cursor: { focus: { prox: 24 }, drag: { x: true, y: true, uni: 20 }, points: { size: 7 } },
        focus: { alpha: 0.25 },
        scales: {
          x: { time: false, range: (_, low, high) => (low === high ? [low - 0.5, high + 0.5] : [low, high]) },
          y: logarithmic ? { distr: 3 } : {},
        },
        series: [{ label: "epoch" }, ...ids.map((id) => this.series(id, data[0].length))],
        axes: [
          { ...axis, label: "epoch", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
          { ...axis, label: metric, size: 70, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))) },
        ],
        hooks: { setSelect: [({ select }) => { this.zoomed = select.width > 0 || this.zoomed; }], setCursor: [() => this.values()], setSeries: [(_, place) => this.focus(place)] },
      },
      data,
      this.box,
    );
    this.zoomed = false;
    this.plot.over.addEventListener("dblclick", () => { this.zoomed = false; });
  }

  series(id, epochs) {
    const { colour, dash } = this.palette.stroke(id);
    const points = { show: epochs < 30 ? undefined : false, size: 5, fill: colour };
    return { label: id, stroke: colour, dash, width: 2, points, show: !this.hidden.has(id), spanGaps: true };
  }

  // The legend lists the drawn curves from best to worst.
  list(ranked) {
    for (const [id, entry] of this.entries) {
      if (ranked.includes(id)) continue;
      entry.item.remove();
      this.entries.delete(id);
    }
    let after = null;
    for (const id of ranked) {
      const entry = this.entries.get(id) ?? this.entry(id);
      paintSwatch(entry.mark, this.palette.stroke(id));
      const place = after ? after.nextSibling : this.legend.firstChild;
      if (place !== entry.item) {
        const focused = document.activeElement;
        this.legend.insertBefore(entry.item, place);
        if (entry.item.contains(focused)) focused.focus({ preventScroll: true });
      }
      after = entry.item;
    }
    this.values();
  }

  entry(id) {
    const mark = swatch(null);
    const value = element("span", { class: "legend-value" });
    const toggle = element("button", {
      type: "button",
      class: "legend-entry",
      "aria-pressed": String(!this.hidden.has(id)),
      title: "Show or hide the curve",
      onclick: () => this.toggle(id),
      onmouseenter: () => this.plot?.setSeries(this.ids.indexOf(id) + 1, { focus: true }),
      onmouseleave: () => this.plot?.setSeries(null, { focus: true }),
    }, mark, element("span", { class: "legend-name" }, id), value);
    const entry = { item: element("li", {}, toggle), toggle, mark, value };
    this.entries.set(id, entry);
    return entry;
  }

  toggle(id) {
    const shown = this.hidden.delete(id);
    if (!shown) this.hidden.add(id);
    this.entries.get(id).toggle.setAttribute("aria-pressed", String(shown));
    const place = this.ids.indexOf(id) + 1;
    if (place) this.plot.setSeries(place, { show: shown });
  }

  focus(place) {
    const id = place ? this.ids[place - 1] : null;
    for (const [name, entry] of this.entries) entry.item.classList.toggle("focused", name === id);
  }

  // Values at the epoch under the pointer, or else the last ones.
  values() {
    if (!this.plot) return;
    const at = this.plot.cursor.idx;
    const pointed = at !== null && at !== undefined && this.plot.cursor.left >= 0;
    setText(byId("legend-epoch"), pointed ? `Values at epoch ${this.plot.data[0][at]}` : "Last values");
    this.ids.forEach((id, place) => {
      const column = this.plot.data[place + 1];
      const value = pointed ? column[at] : column.findLast((each) => each !== null);
      const entry = this.entries.get(id);
      if (entry) setText(entry.value, value === null || value === undefined ? "–" : number(value));
    });
  }
}
