// Form that launches an experiment, or a drill-down of one, after its plan was shown.

import * as api from "./api.js";
import { Columns } from "./columns.js";
import { row } from "./dialogs.js";
import { byId, setAttribute, setOptions, setText } from "./dom.js";
import { duration } from "./format.js";
import { Model } from "./source.js";
import { PROCEDURES, fieldsOf, settings } from "./procedures.js";
import { Request, newKey } from "./requests.js";
import { Space } from "./space.js";

const RUN = /^(?!\.)[A-Za-z0-9._-]{1,128}$/;
// Names of arguments in messages of the pool, by the field that they belong to.
const FIELDS = { num_epochs: "epochs", max_epochs: "epochs", max_configurations: "num_configurations", run_id: "run", name: "run", sha256: "script", columns: "feature_columns" };

const NO_TABLE = "table must be the path or URI of a table.";

const form = byId("launch");
const parent = form.dataset.run;
const value = (id) => byId(id)?.value.trim() ?? "";

let pools = [];
// The plan that is shown: the text of its document, and the key with which that document is launched.
let planned = null;
let key = newKey();
let open = null;

const space = new Space(byId("space").tBodies[0], outdated);
const columns = parent ? null : new Columns(byId("columns").tBodies[0], outdated);
const model = parent ? null : new Model({ pool: () => byId("pool").value, changed: outdated, loaded: suggest, fail });

// --- Errors beside the fields ---

function fail(id, message) {
  const place = byId(`${id}-error`);
  if (!place) {
    setText(byId("problem"), message);
    byId("problem").scrollIntoView({ block: "nearest" });
    return;
  }
  setText(place, message);
  if (byId(id)) setAttribute(byId(id), "aria-invalid", message ? "true" : null);
}

function clear() {
  for (const place of form.querySelectorAll(".field-error")) setText(place, "");
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  setText(byId("problem"), "");
}

// A refusal of the pool belongs to the field whose argument it begins with, or whose hyperparameter it names.
function refuse(message) {
  // The run of the source is the parent, which has no field.
  const word = message.startsWith("run of source") ? "" : /^\w+/.exec(message)?.[0] ?? "";
  const field = FIELDS[word] ?? word;
  if (byId(`${field}-error`) && field !== "search_space") fail(field, message);
  else if (!space.fail(message)) fail(field, message);
  focusInvalid();
}

function focusInvalid() {
  const field = form.querySelector('[aria-invalid="true"]');
  const text = [...form.querySelectorAll(".field-error")].find((each) => each.textContent);
  if (field) field.focus();
  else if (text?.id === "feature_columns-error" || text?.id === "label_columns-error") (columns.length ? columns.focus(text.id.split("_")[0]) : byId("read-columns").focus());
  else text?.scrollIntoView({ block: "center" });
}

// --- The document of the launch ---

// The document of the form, or null where a field is not valid; the errors are shown beside the fields.
function read() {
  clear();
  let valid = true;
  const wrong = (id, message) => {
    valid = false;
    fail(id, message);
  };
  if (!byId("pool").value) wrong("pool", "pool must be one that is connected. Start one and load the page again.");
  if (!RUN.test(value("run"))) wrong("run", `name must be of letters, digits, '.', '_' and '-', got ${value("run") || "nothing"}.`);
  const source = parent ? { run: parent } : model.read(wrong);
  const texts = Object.fromEntries(["epochs", "num_configurations", "population", "eta", "metric", "seed"].map((id) => [id, value(id)]));
  if (!parent) texts.test_fraction = value("test_fraction");
  const chosen = settings(value("procedure"), texts, wrong);
  const entries = space.read();
  const document = {
    run: value("run"), description: value("description"), procedure: value("procedure"),
    source, search_space: entries, settings: { ...model?.settings, ...chosen },
  };
  if (!parent) Object.assign(document, data(wrong));
  return valid && entries && source ? document : null;
}

function data(wrong) {
  const { feature, label } = columns.read();
  if (!value("table")) wrong("table", NO_TABLE);
  // A script may name its columns; without features, all columns other than labels are features.
  else if (!label.length && !model.columns.labels.length) {
    if (columns.length) wrong("label_columns", "label_columns must have at least one column. Choose the label.");
    else wrong("table", "table must have been read. Use the button 'Read the columns', and choose the label.");
  }
  // Columns that are those of the script are left to it, as it may group them by input.
  const { features, labels } = model.columns;
  const unless = (chosen, known) => (chosen.length === known.length && chosen.every((name) => known.includes(name)) ? [] : chosen);
  return { table: value("table"), feature_columns: unless(feature, features), label_columns: unless(label, labels) };
}

// --- Requests to the pool ---

async function ask(kind, document, options = {}) {
  const request = new Request(kind, document, { pool: byId("pool").value || null, ...options });
  open = request;
  byId("cancel").hidden = false;
  try {
    return await request.result;
  } finally {
    if (open === request) {
      open = null;
      byId("cancel").hidden = true;
    }
  }
}

const state = (text) => setText(byId("plan-state"), text);

function outdated() {
  setAttribute(byId("start"), "aria-disabled", "true");
  if (planned) state("The form has changed. Show its plan before the launch.");
  byId("plan-text").classList.toggle("outdated", planned !== null);
  planned = null;
}

async function plan() {
  if (open) return;
  const document = read();
  if (!document) return focusInvalid();
  state("The pool computes the plan …");
  try {
    const result = await ask("plan", document, { changed: waiting("The plan is") });
    const time = result.seconds === null || result.seconds === undefined ? "unknown until the first epoch has been measured" : `at least ${duration(result.seconds)}`;
    byId("plan-facts").replaceChildren(...row("Configurations", String(result.configurations ?? "")), ...row("Epochs", String(result.epochs ?? "")), ...row("Time", time));
    setText(byId("plan-text"), result.text ?? "");
    byId("plan-text").classList.remove("outdated");
    for (const id of ["plan-facts", "plan-text"]) byId(id).hidden = false;
    // The form may have changed while the pool was computing.
    const now = JSON.stringify(read());
    planned = JSON.stringify(document);
    if (now !== planned) return outdated();
    key = newKey();
    setAttribute(byId("start"), "aria-disabled", null);
    state(`This is what ${document.run} will train. Nothing has been launched.`);
  } catch (error) {
    failed(error, "There is no plan.");
  }
}

async function launch() {
  if (open || byId("start").getAttribute("aria-disabled")) return;
  const document = JSON.parse(planned);
  setAttribute(byId("start"), "aria-disabled", "true");
  try {
    const { run } = await ask("launch", document, { key, changed: waiting("The launch is") });
    state(`${run} trains. Its page opens.`);
    location.assign(`${api.address("").replace("/api/v1/", "")}/experiments/${encodeURIComponent(run)}`);
  } catch (error) {
    // A request that was not accepted keeps its key, so that it is never launched twice.
    if (error.status === 0 || error.status >= 500) setAttribute(byId("start"), "aria-disabled", null);
    else planned = null;
    failed(error, "Nothing was launched.");
  }
}

function waiting(subject) {
  return (record, error) => {
    if (error) state(`${error.message} The page asks again.`);
    else if (record.state === "pending") state(`${subject} waiting for the pool ${record.pool ?? ""}.`);
    else if (record.state === "running") state(`${subject} being worked on. ${[record.progress?.step, record.progress?.reason].filter(Boolean).join(": ")}`.trim());
  };
}

function failed(error, text) {
  if (!(error instanceof api.RequestError)) throw error;
  state(error.code === "cancelled" ? `${text} The request was cancelled.` : text);
  if (error.code !== "cancelled") refuse(error.message);
}

async function readColumns() {
  if (open) return;
  fail("table", "");
  if (!value("table")) {
    fail("table", NO_TABLE);
    return byId("table").focus();
  }
  const say = (text) => setText(byId("columns-state"), text);
  say("The pool reads the schema …");
  try {
    const { columns: listed, rows } = await ask("schema", { table: value("table") });
    columns.fill(listed, model.columns);
    byId("columns-box").hidden = false;
    say(`${listed.length} columns${Number.isInteger(rows) ? `, ${rows.toLocaleString("en")} rows` : ""}. Choose the labels, and features unless all other columns are.`);
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    say("The columns are unknown.");
    fail("table", error.message);
    byId("table").focus();
  }
}

// --- What the fields start with ---

// The defaults of a model or script. A user's changes of the space are replaced, as they belong to another model.
function suggest({ search_space, settings: given = {}, procedure, isHidden }) {
  space.fill(search_space);
  const shown = Object.keys(search_space).length ? "The space that the model suggests. Change it as you like." : "";
  setText(byId("space-state"), isHidden ? "The script has a space with conditions, which this form cannot show. Without rows, that space is used." : shown);
  for (const [name, id] of [["num_epochs", "epochs"], ["max_epochs", "epochs"], ["num_configurations", "num_configurations"], ["max_configurations", "num_configurations"], ["eta", "eta"], ["test_fraction", "test_fraction"], ["seed", "seed"]])
    if (given[name] !== undefined && given[name] !== null) byId(id).value = String(given[name]);
  // The metric of another model may not exist.
  byId("metric").value = given.metric ?? "";
  if (procedure in PROCEDURES) byId("procedure").value = procedure;
  showProcedure();
}

function showProcedure() {
  const { hint, epochs } = PROCEDURES[byId("procedure").value];
  const names = fieldsOf(byId("procedure").value);
  setText(byId("procedure-hint"), hint);
  setText(byId("epochs-hint"), epochs[1]);
  for (const id of ["num_configurations", "population", "eta"]) form.querySelector(`[data-field=${id}]`).hidden = !names.includes(id);
}

async function narrow() {
  const best = value("best");
  fail("best", "");
  if (!/^[1-9][0-9]{0,2}$/.test(best)) {
    fail("best", `best must be a whole number from 1 to 999, got ${best || "nothing"}.`);
    return byId("best").focus();
  }
  try {
    const { trials, search_space, reasons } = await api.narrowed(parent, best);
    space.fill(search_space, reasons);
    setText(byId("space-state"), trials.length ? `From ${trials.join(", ")}, the best first.` : "No epoch has finished yet, so that no configuration is the best. Add the hyperparameters.");
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    fail("best", error.message);
  }
}

function showPool() {
  const pool = pools.find(({ name }) => name === byId("pool").value);
  setText(byId("pool-hint"), pool ? `${pool.workers} ${pool.workers === 1 ? "worker" : "workers"} of ${pool.master}. Runs are kept in ${pool.store}.` : "");
  model?.allowScripts(pool?.scripts ?? false);
}

async function listPools(name) {
  pools = (await api.pools()).filter(({ is_live, kinds }) => is_live && kinds.includes("launch")).filter((each) => !name || each.name === name);
  setOptions(byId("pool"), pools.map((pool) => [pool.name, pool.name]));
  if (!pools.length) fail("pool", name ? `pool must be connected, got ${name}, which trained the experiment. Start it and load the page again.` : "No pool of workers is connected. Start one with cerebro serve --store URI --master 'local[2]', or with cerebro runner, and load the page again.");
  showPool();
}

async function begin() {
  setOptions(byId("procedure"), Object.entries(PROCEDURES).map(([name, { title }]) => [name, title]));
  byId("procedure").value = "random";
  showProcedure();
  try {
    if (parent) {
      const info = await api.experiment(parent);
      byId("run").value = `${parent}-2`;
      byId("epochs").value = info.epochs;
      if (!info.pool) {
        setText(byId("problem"), `${parent} was not launched in a pool, whose workers still have its rows. Use the space below for a new experiment.`);
      }
      await Promise.all([listPools(info.pool), narrow()]);
    } else await Promise.all([listPools(), model.load()]);
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    setText(byId("problem"), error.message);
  }
  form.dataset.ready = "true";
}

form.addEventListener("submit", (event) => { event.preventDefault(); plan(); });
form.addEventListener("input", outdated);
byId("start").addEventListener("click", launch);
byId("cancel").addEventListener("click", () => open?.cancel());
byId("procedure").addEventListener("change", showProcedure);
byId("pool").addEventListener("change", showPool);
byId("add-row").addEventListener("click", () => { space.add().name.focus(); outdated(); });
byId("narrow")?.addEventListener("click", narrow);
byId("read-columns")?.addEventListener("click", readColumns);
begin();
