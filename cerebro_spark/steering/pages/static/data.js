// Page for data debugging: ask the pool for suspicious rows, relabel them, and compare two models.

import * as api from "./api.js";
import { notify } from "../udfs.web/shell.js";
import { Corrections } from "./corrections.js";
import { byId, element, setText } from "./dom.js";
import { newKey } from "./requests.js";
import { follow } from "./stream.js";
import { Suspicious } from "./suspicious.js";

const KINDS = { label_errors: "Label errors", slices: "Weak slices", influence: "Influential rows", near_duplicates: "Near duplicates", outliers: "Outliers", leaks: "Leaks between splits" };
const WAIT_S = 20;
const RETRY_MS = 2000;

const page = byId("data");
const run = page.dataset.run;
const editor = page.dataset.editor === "true";
const problem = (text) => setText(byId("problem"), text);

let listed = [];
let labelColumn = "";
const suspicious = new Suspicious({ editor, decide, undo });
const corrections = new Corrections({ run, editor, remove });
const column = () => byId("id-column")?.value.trim() || idColumn;
let idColumn = "id";

async function refresh() {
  try {
    listed = await api.corrections(run);
    suspicious.update(listed);
    corrections.draw(listed, column(), labelColumn);
    page.dataset.ready = "true";
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    problem(error.message);
  }
}

let changes = Promise.resolve();

// Store something after all earlier changes, and show what the server has then; false if it refused.
// In the order of the keys, so that a second decision about a row replaces the first.
function store(change) {
  changes = changes.catch(() => {}).then(() => attempt(change));
  return changes;
}

async function attempt(change) {
  try {
    await change();
    problem("");
    return true;
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    problem(error.message);
    return false;
  } finally {
    await refresh();
  }
}

async function decide(row, label) {
  const decision = { row: row.id, label, given_label: row.given_label ?? null };
  const stored = await store(() => api.correct(run, { ...decision, replaces: suspicious.known(row)?.number ?? null }));
  if (stored) notify(label === row.given_label ? `Row ${row.id} keeps ${label}.` : `Row ${row.id} is relabelled as ${label}.`);
  return stored;
}

async function undo(row) {
  await withdraw(row.id, () => suspicious.known(row)?.number);
}

async function remove({ number, row }) {
  await withdraw(row, () => number);
}

async function withdraw(row, number) {
  let withdrawn = false;
  const change = async () => {
    const known = number();
    if (known === undefined) return;
    await api.withdrawCorrection(run, known);
    withdrawn = true;
  };
  if ((await store(change)) && withdrawn) notify(`The correction of row ${row} is removed.`);
}

// --- questions to the pool

let current = null;

// Follow a request until it is over, unless another one has taken its place.
async function watch(record, { is, state, done }) {
  let latest = record;
  while (is() && ["pending", "running"].includes(latest.state)) {
    state(latest);
    try {
      latest = await api.waitFor(latest.id, latest.revision, WAIT_S);
    } catch (error) {
      if (!(error instanceof api.RequestError)) throw error;
      state({ ...latest, message: error.message });
      await new Promise((wake) => setTimeout(wake, RETRY_MS));
    }
  }
  if (!is()) return;
  // The list of requests has no results.
  if (latest.state === "done" && !latest.result) latest = await api.waitFor(latest.id, -1, WAIT_S);
  state(latest);
  if (latest.state === "done") done(latest);
}

function describe({ kind, state, progress, message, result, document, user }) {
  const what = `${KINDS[kind] ?? "Comparison"}${document?.trial ? ` of ${document.trial}` : ""}`;
  if (state === "pending") return `${what}: waits for the pool. ${message ?? ""}`;
  if (state === "running") return `${what}: ${progress?.text ?? "runs"} … ${message ?? ""}`;
  if (state !== "done") return `${what}: ${state}. ${message ?? ""}`;
  const errors = result.errors === undefined ? "" : `, ${result.errors} of them flagged`;
  return `${what}, asked by ${user}: the first ${result.rows.length} of ${result.total} rows${errors}.`;
}

function search(record) {
  const { id } = record;
  current = id;
  watch(record, {
    is: () => current === id,
    state: (latest) => {
      setText(byId("state"), describe(latest));
      if (byId("cancel")) byId("cancel").hidden = !["pending", "running"].includes(latest.state);
    },
    done: ({ kind, result }) => {
      idColumn = result.id_column ?? idColumn;
      labelColumn = result.label_column ?? labelColumn;
      setText(byId("rows-heading"), KINDS[kind] ?? "Rows");
      suspicious.show(result, kind);
      suspicious.update(listed);
      corrections.draw(listed, column(), labelColumn);
    },
  });
}

function compared(record) {
  watch(record, {
    is: () => true,
    state: (latest) => { if (latest.state !== "done") setText(byId("comparison"), describe(latest)); },
    done: ({ document, result }) => setText(byId("comparison"), `${document.other} → ${run}: ${result.text}.`),
  });
}

const names = (id) => byId(id).value.split(",").map((name) => name.trim()).filter(Boolean);
const ids = (id) => names(id).map((name) => (/^-?[0-9]{1,15}$/.test(name) ? Number(name) : name));

function documentOf(kind) {
  const optional = { trial: byId("trial").value, table: byId("table").value.trim() };
  const given = Object.fromEntries(Object.entries(optional).filter(([, value]) => value));
  const fields = {
    label_errors: () => ({ held_out: byId("held-out").checked }),
    slices: () => ({ columns: names("columns") }),
    influence: () => ({ targets: ids("targets") }),
    near_duplicates: () => ({ columns: names("columns") }),
    outliers: () => ({ columns: names("columns") }),
    leaks: () => ({ columns: names("columns"), held_out_table: byId("held-out-table").value.trim() }),
  };
  return { run, limit: Number(byId("limit").value), ...(kind === "slices" ? {} : { id_column: column() }), ...given, ...fields[kind]() };
}

// A lost reply to the same question does not ask twice.
const keys = new Map();
async function send(kind, document, show) {
  const text = JSON.stringify([kind, document]);
  if (!keys.has(text)) keys.set(text, newKey());
  try {
    const record = await api.sendRequest({ kind, document }, keys.get(text));
    keys.delete(text);
    problem("");
    show(record);
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    problem(error.message);
  }
}

function choose() {
  for (const field of document.querySelectorAll("[data-for]")) field.hidden = !field.dataset.for.split(" ").includes(byId("kind").value);
}

async function fill() {
  const [trials, experiments] = await Promise.all([api.configurations(run), api.experiments()]);
  byId("trial").append(...trials.filter(({ finished }) => finished > 0).map(({ trial }) => element("option", { value: trial }, trial)));
  byId("other").replaceChildren(...experiments.filter((each) => each.run !== run).map((each) => element("option", { value: each.run }, each.run)));
}

if (editor) {
  byId("kind").addEventListener("change", choose);
  byId("id-column").addEventListener("input", () => corrections.draw(listed, column(), labelColumn));
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const kind = byId("kind").value;
    send(kind, documentOf(kind), search);
  });
  byId("cancel").addEventListener("click", () => store(() => api.cancelRequest(current)));
  byId("compare").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!byId("other").value) return problem("Another experiment is needed for a comparison. Train on the corrected labels first.");
    return send("comparison", { run, other: byId("other").value, held_out_table: byId("compared-table").value.trim() }, compared);
  });
  choose();
}

async function begin() {
  await refresh();
  try {
    if (editor) await fill();
    const asked = await api.requests(run);
    const latest = (kinds) => asked.filter(({ kind, state }) => kinds.includes(kind) && state !== "cancelled").at(-1);
    const [last, comparison] = [latest(Object.keys(KINDS)), latest(["comparison"])];
    if (last) search(last);
    if (comparison) compared(comparison);
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    problem(error.message);
  }
  follow({ since: 0, changed: refresh, status: () => {} });
}

begin();
