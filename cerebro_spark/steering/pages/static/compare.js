// Page that compares experiments: best values over time, settings, configurations and importance of hyperparameters.

import * as api from "./api.js";
import { best } from "./curves.js";
import { byId, element, setText } from "./dom.js";
import { duration, number, setting } from "./format.js";
import { drawBest, drawImportance, drawParallel } from "./plots.js";

const MOST = 8;
// Settings of an experiment that are results, or that differ in any case.
const RESULTS = new Set(["run", "name", "store", "created", "ended", "runner_seen", "state", "error", "configurations", "statuses", "finished", "remaining", "best", "pending", "cursor", "metrics", "session", "fingerprint", "description", "parameters", "tensorboard"]);

const form = byId("choice");

async function load(run) {
  const [info, steps, importance, configurations] = await Promise.all([api.experiment(run), api.bestSoFar(run), api.importance(run), api.configurations(run)]);
  const { curves } = await api.metrics(run, info.metric, 0);
  const larger = info.mode === "max";
  return { run, info, steps, importance, configurations: configurations.map(({ trial, params }) => ({ run, trial, params, best: best(curves[trial]?.values ?? [], larger) })) };
}

const head = (table, ...names) => table.tHead.replaceChildren(element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name))));
const line = (name, cells) => element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell)));
const link = (run) => element("a", { href: `experiments/${encodeURIComponent(run)}` }, run);

function results(runs) {
  const table = byId("results");
  head(table, "Experiment", "Procedure", "State", "Best value", "Found by", "After epochs", "After time", "Configurations", "Epochs");
  table.tBodies[0].replaceChildren(...runs.map(({ run, info, steps }) => {
    const first = steps.find(({ value }) => value === info.best);
    const time = first && first.seconds !== null ? duration(first.seconds) : "";
    return line(link(run), [info.procedure, info.state, `${info.metric} ${number(info.best)}`, first?.trial ?? "", first ? String(first.epochs) : "", time, String(info.configurations), String(info.finished)]);
  }));
}

// The settings of an experiment by name, those of its procedure and its search space included.
function settings({ parameters, search_space, ...rest }) {
  const spaces = Object.entries(search_space ?? {}).map(([name, entry]) => [`space of ${name}`, entry]);
  return Object.fromEntries([...Object.entries(rest), ...Object.entries(parameters ?? {}), ...spaces].filter(([name]) => !RESULTS.has(name)));
}

function differences(runs) {
  const all = runs.map(({ info }) => settings(info));
  const names = [...new Set(all.flatMap(Object.keys))].filter((name) => new Set(all.map((each) => JSON.stringify(each[name]))).size > 1);
  const table = byId("differences");
  table.hidden = !names.length;
  setText(byId("settings-note"), names.length ? "" : runs.length > 1 ? "All settings are equal." : "Choose a second experiment to compare settings.");
  head(table, "Setting", ...runs.map(({ run }) => run));
  table.tBodies[0].replaceChildren(...names.map((name) => line(name, all.map((each) => setting(each[name])))));
}

// Hyperparameters of all experiments, the most important first.
function ordered(runs) {
  const most = new Map();
  for (const { importance } of runs) for (const [name, value] of Object.entries(importance)) most.set(name, Math.max(most.get(name) ?? -1, value ?? -1));
  return [...most.keys()].sort((one, other) => most.get(other) - most.get(one));
}

function importances(runs, names) {
  const table = byId("importance");
  head(table, "Hyperparameter", ...runs.map(({ run }) => run));
  table.tBodies[0].replaceChildren(...names.map((name) => line(name, runs.map(({ importance }) => {
    const value = importance[name];
    return value === undefined ? "not tried" : value === null ? "unknown" : number(Number(value.toFixed(3)));
  }))));
}

async function draw(runs) {
  const metrics = [...new Set(runs.map(({ info }) => info.metric))];
  setText(byId("metrics-differ"), metrics.length > 1 ? `The experiments decide by different metrics (${metrics.join(", ")}): compare their values with care.` : "");
  const metric = metrics.length > 1 ? "value" : metrics[0];
  const names = ordered(runs);
  byId("comparison").hidden = false;
  results(runs);
  differences(runs);
  importances(runs, names);
  const configurations = runs.flatMap((each) => each.configurations);
  byId("importance-chart").hidden = !names.length;
  await drawBest(byId("best-epochs"), runs, "epochs", metric);
  await drawBest(byId("best-seconds"), runs, "seconds", metric);
  if (names.length) await drawImportance(byId("importance-chart"), runs, names);
  // The last one, as it needs WebGL, which a browser may lack.
  const { drawn, axes } = await drawParallel(byId("parallel"), configurations, names, metric);
  const fewer = axes < names.length ? `, and the ${axes} most important of ${names.length} hyperparameters` : "";
  setText(byId("parallel-note"), drawn ? `Shows ${drawn} ${drawn === 1 ? "configuration" : "configurations"} with a value${fewer}. Drag along an axis to select a range, and click the axis to clear it.` : "No configuration has a value yet.");
}

async function compare(names) {
  setText(byId("problem"), "");
  document.body.removeAttribute("data-ready");
  try {
    await draw(await Promise.all(names.map(load)));
    document.body.dataset.ready = "true";
  } catch (error) {
    setText(byId("problem"), error.message);
    if (!(error instanceof api.RequestError)) throw error;
  }
}

const boxes = () => [...form.querySelectorAll("input[type=checkbox]")];

function choose(event) {
  event.preventDefault();
  const names = boxes().filter(({ checked }) => checked).map(({ value }) => value);
  const valid = names.length >= 1 && names.length <= MOST;
  setText(byId("choice-error"), valid ? "" : `runs must be 1 to ${MOST} experiments, got ${names.length}.`);
  if (!valid) return boxes()[0]?.focus();
  history.replaceState(null, "", `?runs=${names.map(encodeURIComponent).join(",")}`);
  byId("choice-box").open = false;
  compare(names);
}

async function begin() {
  const wanted = [...new Set(form.dataset.runs.split(",").filter(Boolean))].slice(0, MOST);
  form.addEventListener("submit", choose);
  byId("choice-box").open = wanted.length < 2;
  if (wanted.length) compare(wanted);
  try {
    const experiments = await api.experiments();
    byId("choices").replaceChildren(...experiments.map(({ run }) => element("label", {}, element("input", { type: "checkbox", value: run, checked: wanted.includes(run) }), ` ${run}`)));
    if (!experiments.length) setText(byId("problem"), "There is no experiment yet.");
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    setText(byId("problem"), error.message);
  }
}

begin();
