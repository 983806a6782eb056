// State of one experiment in the browser: documents of the REST API, folded by cursor.

import * as api from "./api.js";
import { best } from "./curves.js";
import { toNumber } from "./format.js";

// Older units are left out of the chart. A page requests those of the last events of the server.
const UNITS = 20000;
const EVENTS = 5000;
// Metrics of which the highest value comes first.
const LARGER = /accuracy|auc|f1|r2|precision|recall|score/i;

export class Experiment {
  constructor(run) {
    this.run = run;
    this.info = null;
    this.rows = [];
    this.places = new Map();
    this.parents = new Map();
    this.units = [];
    this.commands = [];
    this.metric = null;
    this.curves = new Map();
    this.cursors = { metrics: 0, units: null };
  }

  // True if more of the metric is better. The run says it of the metric that decides.
  get larger() {
    return this.decides ? this.info.mode === "max" : LARGER.test(this.metric);
  }

  get decides() {
    return this.metric === this.info.metric;
  }

  // Choose another metric; its curve begins at cursor 0.
  choose(metric) {
    if (metric === this.metric) return;
    this.metric = metric;
    this.curves = new Map();
    this.cursors.metrics = 0;
  }

  // Request what is new. Safe to repeat: cursors leave out what is here already.
  async refresh() {
    this.info = await api.experiment(this.run);
    this.metric ??= this.info.metric;
    const { metric } = this;
    const [metrics, commands] = await Promise.all([api.metrics(this.run, metric, this.cursors.metrics), api.commands(this.run)]);
    // Requested after the curves: a curve with more epochs than its configuration is one of an earlier journal.
    const configurations = await api.configurations(this.run);
    if (metric === this.metric) this.mergeCurves(metrics);
    this.commands = commands;
    this.mergeConfigurations(configurations);
  }

  // Request new units; the server sends many of them in parts.
  async refreshUnits() {
    this.cursors.units ??= Math.max(0, this.info.cursor - EVENTS);
    let more = true;
    while (more) {
      const reply = await api.units(this.run, this.cursors.units);
      this.cursors.units = reply.next;
      if (reply.units.length) this.units = this.units.concat(reply.units).sort((one, other) => one.began - other.began).slice(-UNITS);
      more = reply.more;
    }
  }

  mergeCurves({ curves, next }) {
    for (const [id, { epochs, values }] of Object.entries(curves)) {
      const curve = this.curves.get(id) ?? { epochs: [], values: [] };
      this.curves.set(id, curve);
      epochs.forEach((epoch, place) => {
        const at = epoch > (curve.epochs.at(-1) ?? 0) ? curve.epochs.length : curve.epochs.indexOf(epoch);
        if (at < 0) return;
        curve.epochs[at] = epoch;
        curve.values[at] = values[place];
      });
    }
    this.cursors.metrics = next;
  }

  mergeConfigurations(documents) {
    this.places = new Map(documents.map(({ trial }, place) => [trial, place]));
    this.parents = new Map(documents.filter(({ parent }) => parent).map(({ trial, parent, parent_epoch }) => [trial, { id: parent, epoch: parent_epoch }]));
    for (const id of [...this.curves.keys()]) if (!this.places.has(id)) this.curves.delete(id);
    this.rows = documents.map((document, place) => {
      const curve = this.curves.get(document.trial) ?? { epochs: [], values: [] };
      // A run whose journal began anew has fewer epochs than before.
      while (curve.epochs.at(-1) > document.finished) [curve.epochs, curve.values].forEach((list) => list.pop());
      return {
        ...document,
        id: document.trial,
        place,
        last: curve.values.length ? toNumber(curve.values.at(-1)) : NaN,
        best: best(curve.values, this.larger),
        done: document.finished,
        pending: document.pending.join(", "),
      };
    });
  }

  find(id) {
    return this.rows.find((row) => row.id === id);
  }
}
