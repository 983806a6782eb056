// Page of one experiment: curves, configurations, units and commands, kept up to date by the event stream.

import * as api from "./api.js";
import { notify } from "../udfs.web/shell.js";
import { bulk, command, details, epochsField, moreEpochsField, row } from "./dialogs.js";
import { Commands, sentence } from "./commands.js";
import { configurationRows, csv, download } from "./csv.js";
import { Curves } from "./curves.js";
import { byId, debounce, element, setOptions, setText } from "./dom.js";
import { setting, time } from "./format.js";
import { Gantt } from "./gantt.js";
import { drawLineage } from "./lineage.js";
import { Experiment } from "./model.js";
import { follow } from "./stream.js";
import { Table } from "./table.js";

const PAUSE_MS = 300;
const RETRY_MS = 2000;
const NOTICE_MS = 20000;
const VERBS = { stop: "Stop", pause: "Pause", resume: "Resume", prioritise: "Prioritise", extend: "Extend" };

const page = byId("experiment");
const run = page.dataset.run;
const editor = page.dataset.editor === "true";
const model = new Experiment(run);

let notice = 0;

// The history of commands keeps what the notice says.
function announce(text) {
  notify(text);
  clearTimeout(notice);
  notice = setTimeout(() => notify(""), NOTICE_MS);
}

const curves = new Curves();
const gantt = new Gantt();
const commands = new Commands({ editor, announce, refresh });
const table = new Table({ editor, isOver: () => Boolean(model.info?.ended), onAction: steer, onOpen: showDetails, strokeOf: (id) => curves.palette.stroke(id) });

function keep(row) {
  const text = byId("filter-text").value.trim().toLowerCase();
  const [status, owner] = [byId("filter-status").value, byId("filter-owner").value];
  if (status && row.status !== status) return false;
  if (owner && (row.owner || "procedure") !== owner) return false;
  return !text || `${row.id} ${row.status} ${row.owner} ${row.parent} ${row.reason} ${JSON.stringify(row.params)}`.toLowerCase().includes(text);
}

function ranking() {
  const best = model.decides ? "best" : model.larger ? "highest" : "lowest";
  return { metric: model.metric, larger: model.larger, best };
}

function drawCurves() {
  curves.draw({
    curves: model.curves,
    places: model.places,
    parents: model.parents,
    ...ranking(),
    limit: Number(byId("limit").value),
    logarithmic: byId("logarithmic").checked,
  });
}

function drawTable() {
  table.update(model.rows, { ...ranking(), keep });
}

const drawGantt = () => gantt.draw(model.units, model.places, Number(byId("span").value) || Infinity);

function describe(info) {
  if (info.ended) return info.error ? `failed ${time(info.ended)}` : `ended ${time(info.ended)}`;
  const running = `${model.rows.filter(({ status }) => status === "running").length} running`;
  return info.state === "away" ? `${running}. The search is not connected: commands wait until it is` : running;
}

function leftOut(info) {
  const reasons = Object.entries(info.left_out ?? {});
  const rows = (number) => `${number} ${number === 1 ? "row" : "rows"}`;
  return reasons.length ? ` Left out of the table: ${reasons.map(([reason, number]) => `${rows(number)} (${reason})`).join(", ")}.` : "";
}

function drawInfo() {
  const { info } = model;
  setText(byId("summary"), `${info.procedure}, ${info.metric} (${info.mode}), ${model.rows.length} configurations, ${describe(info)}.${leftOut(info)}`);
  setText(byId("description"), info.description ?? "");
  byId("description").hidden = !info.description;
  if (info.parent && byId("origin").hidden) {
    byId("origin").append("Drill-down of ", element("a", { href: encodeURIComponent(info.parent) }, info.parent), ".");
    byId("origin").hidden = false;
  }
  const folder = info.tensorboard;
  setText(byId("tensorboard"), folder ? `TensorBoard reads the events of this run with: tensorboard --logdir ${folder}` : "");
  byId("tensorboard").hidden = !folder;
  setText(byId("run-error"), info.error);
  byId("run-error").hidden = !info.error;
  for (const id of ["end", "bulk-apply", "add"]) {
    const button = byId(id);
    if (!button) continue;
    button.disabled = Boolean(info.ended);
    button.title = info.ended ? "The search has ended: drill down to train more" : "";
  }
  if (!byId("settings").children.length) {
    const { store, epochs, workers, parameters, pool, source, feature_columns: features, label_columns: labels, search_space: space } = info;
    const classes = Object.values(info.labels ?? {}).map((names) => names.map((name, number) => `${number} = ${name}`).join(", ")).join("; ");
    const launched = Object.entries({ pool, source, features, labels, classes, "search space": space }).filter(([, value]) => value);
    const settings = [...Object.entries({ store, epochs, workers, ...parameters }), ...launched];
    byId("settings").replaceChildren(...settings.flatMap(([name, value]) => row(name, setting(value))));
  }
}

function drawAll() {
  const { info } = model;
  drawInfo();
  setOptions(byId("metric"), info.metrics.map((name) => [name, name]));
  byId("metric").value = model.metric;
  const words = (values) => [...new Set(values)].sort().map((value) => [value, value]);
  setOptions(byId("filter-status"), [["", "all"], ...words(model.rows.map(({ status }) => status))]);
  setOptions(byId("filter-owner"), [["", "all"], ...words(model.rows.map(({ owner }) => owner || "procedure"))]);
  drawCurves();
  drawTable();
  drawLineage(model.rows, model.metric, showDetails);
  commands.draw(model.commands);
}

// One request at a time; a change meanwhile causes another one after a pause.
let busy = null;
let again = false;
let unknown = false;

async function refresh() {
  if (busy) {
    again = true;
    return busy;
  }
  busy = (async () => {
    do {
      again = false;
      try {
        await model.refresh();
        drawAll();
        await model.refreshUnits();
        drawGantt();
        page.dataset.ready = "true";
        setText(byId("problem"), "");
        unknown = false;
      } catch (error) {
        if (!(error instanceof api.RequestError)) throw error;
        setText(byId("problem"), error.message);
        unknown = error.status === 404;
      }
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    } while (again);
  })().finally(() => { busy = null; });
  return busy;
}

function sent(reply) {
  announce(`${sentence(reply.command)}: ${reply.state}.`);
  refresh();
}

const returnTo = (id, action) => () => table.restore(id, action);

function steer(action, id) {
  const shared = { run, refresh, sent, closed: returnTo(id, action), revision: () => model.find(id)?.revision };
  if (action === "clone") return clone(id, shared);
  const verb = `${VERBS[action]} ${id}`;
  if (action === "extend") return command({ ...shared, title: verb, verb, fields: [moreEpochsField], build: ({ epochs }) => ({ command: action, trial: id, epochs }) });
  return command({ ...shared, title: verb, verb, build: () => ({ command: action, trial: id }) });
}

function clone(id, shared) {
  const { params, done } = model.find(id);
  const epochs = Array.from({ length: done }, (_, place) => String(done - place)).map((epoch) => [epoch, epoch]);
  const fields = [
    ...Object.entries(params).map(([name, value]) => ({ name, label: name, value })),
    { name: "epoch ", label: "From epoch", value: "", options: [["", `the last (${done})`], ...epochs], read: (text) => (text ? Number(text) : null) },
    { ...epochsField, name: "epochs " },
  ];
  const build = (values) => {
    const changed = Object.fromEntries(Object.entries(params).filter(([name, value]) => JSON.stringify(values[name]) !== JSON.stringify(value)).map(([name]) => [name, values[name]]));
    return { command: "clone", trial: id, params: changed, epoch: values["epoch "], epochs: values["epochs "] };
  };
  return command({ ...shared, title: `Clone ${id}`, verb: `Clone ${id}`, fields, build });
}

// The form of a new configuration begins with the params of the first one of the table.
function add() {
  const first = table.shown[0] ?? model.rows[0];
  if (!first) return announce("No configuration has started yet, from which the form takes its fields.");
  const { params } = first;
  const fields = [...Object.entries(params).map(([name, value]) => ({ name, label: name, value })), { ...epochsField, name: "epochs " }];
  const build = (values) => ({ command: "add", params: Object.fromEntries(Object.keys(params).map((name) => [name, values[name]])), epochs: values["epochs "] });
  return command({ run, refresh, sent, title: "Add a configuration", verb: "Add", fields, build });
}

function steerAll(action) {
  const applies = { stop: ["running", "paused"], pause: ["running"], resume: ["paused"] }[action];
  const shown = table.shown.filter(({ status }) => applies.includes(status)).map(({ id }) => id);
  if (!shown.length) return announce(`No configuration in the table can ${action}.`);
  const all = ({ commands: list }) => {
    announce(`${VERBS[action]} ${list.length} ${list.length === 1 ? "configuration" : "configurations"}: pending.`);
    refresh();
  };
  return bulk({ run, action, verb: VERBS[action], items: () => shown.map((id) => model.find(id)).filter(Boolean), refresh, sent: all });
}

function end() {
  command({ run, title: "End the search", verb: "End the search", build: () => ({ command: "end" }), refresh, sent });
}

// Address of the page that explains images, for a configuration that a pool can load; null without that page.
function explanationOf({ id, done }) {
  const page = document.querySelector('header nav a[href$="/explanations"]');
  const { pool, ended } = model.info;
  return page && editor && pool && ended && done ? `${page.href}?${new URLSearchParams({ run, trial: id, pool })}` : null;
}

function showDetails(id) {
  const item = model.find(id);
  const curve = model.curves.get(id) ?? { epochs: [], values: [] };
  details(item, { metric: model.metric, curve, closed: returnTo(id, "details"), explanation: explanationOf(item) });
}

byId("metric").addEventListener("change", (event) => {
  model.choose(event.target.value);
  refresh();
});
for (const id of ["limit", "logarithmic"]) byId(id).addEventListener("change", () => { drawCurves(); drawTable(); });
for (const id of ["filter-status", "filter-owner"]) byId(id).addEventListener("change", drawTable);
byId("filter-text").addEventListener("input", debounce(120, drawTable));
byId("span").addEventListener("change", drawGantt);
byId("export").addEventListener("click", () => download(`${run}.csv`, csv(configurationRows(table.shown, model.metric))));
byId("add")?.addEventListener("click", add);
byId("end")?.addEventListener("click", end);
byId("bulk-apply")?.addEventListener("click", () => steerAll(byId("bulk").value));

async function begin() {
  await refresh();
  if (unknown) return;
  if (!model.info) {
    setTimeout(begin, RETRY_MS);
    return;
  }
  follow({
    since: model.info.cursor,
    changed: ({ experiment }) => { if (experiment === null || experiment === run) refresh(); },
    status: (live) => setText(byId("connection"), live ? "● Live" : "○ Reconnecting: training continues, and the page catches up"),
  });
}

begin();
