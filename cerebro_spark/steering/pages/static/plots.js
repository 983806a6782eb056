// Charts of the comparison page, drawn by plotly.js, which only this page loads.

import { element, setAttribute } from "./dom.js";
import { number, param, toNumber } from "./format.js";

const COLOURS = ["#1f5fa8", "#b34700", "#1b7a2f", "#c0182b", "#6f3fa0", "#7a4a3a", "#b0268a", "#4d4d4d", "#6f7000", "#00788a"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const FONT = { family: "system-ui, sans-serif", size: 13, color: "#1b1f24" };
const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true };
const AXES = 12;
const LOG_FACTOR = 100;

let loading = null;

// The library is a classic script, which defines a global name.
function library() {
  loading ??= new Promise((done, fail) => {
    document.head.append(element("script", { src: new URL("plotly-strict.min.js", import.meta.url).href, onload: () => done(globalThis.Plotly), onerror: () => fail(new Error("The library of the charts could not be loaded. The tables have the values.")) }));
  });
  return loading;
}

async function draw(box, data, layout, label) {
  const plotly = await library();
  setAttribute(box, "aria-label", label);
  await plotly.react(box, data, { font: FONT, margin: { l: 70, r: 20, t: 30, b: 50 }, paper_bgcolor: "#fff", plot_bgcolor: "#fff", ...layout }, CONFIG);
}

// Texts in charts are no markup: plotly reads <b>, <a> and entities.
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// Best value so far by epochs or seconds, a step at each improvement.
export function drawBest(box, runs, by, metric) {
  const lines = runs.map(({ run, steps }, place) => {
    const known = steps.filter((step) => step[by] !== null);
    return {
      type: "scatter", mode: "lines+markers", name: plain(run), x: known.map((step) => step[by]), y: known.map(({ value }) => value),
      line: { shape: "hv", width: 2, color: COLOURS[place % COLOURS.length], dash: DASHES[place % DASHES.length] }, marker: { size: 5 },
    };
  });
  const axis = { gridcolor: "#dfe3ea", linecolor: "#6e7781", zeroline: false, automargin: true };
  const title = by === "epochs" ? "finished epochs" : "seconds since the start";
  const last = runs.filter(({ steps }) => steps.length).map(({ run, steps }) => `${run} ${number(steps.at(-1).value)} after ${number(steps.at(-1)[by])}`).join(", ");
  return draw(box, lines, { height: 340, xaxis: { ...axis, title: { text: title } }, yaxis: { ...axis, title: { text: plain(metric) } }, legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, showlegend: true }, `Best ${metric} by ${title}: ${last || "no value yet"}.`);
}

function dimension(label, values) {
  const known = values.filter((value) => value !== undefined && value !== null);
  if (known.length && known.every((value) => typeof value === "number")) {
    const [low, high] = known.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    if (!(low > 0 && high / low >= LOG_FACTOR)) return low === high ? categories(label, values) : { label: plain(label), values: values.map((value) => value ?? NaN), tickformat: ".3~g" };
    const ends = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const ticks = Array.from({ length: ends[1] - ends[0] + 1 }, (_, place) => ends[0] + place);
    return { label: plain(label), values: values.map((value) => (value > 0 ? Math.log10(value) : NaN)), range: ends, tickvals: ticks, ticktext: ticks.map((tick) => number(10 ** tick)) };
  }
  return categories(label, values);
}

function categories(label, values) {
  const texts = values.map((value) => (value === undefined ? "–" : param(value)));
  const names = [...new Set(texts)].sort();
  return { label: plain(label), values: texts.map((text) => names.indexOf(text)), range: [-0.25, Math.max(0.25, names.length - 0.75)], tickvals: names.map((_, place) => place), ticktext: names.map((text) => plain(text.length > 24 ? `${text.slice(0, 23)}…` : text)) };
}

// A line per configuration with a value. `names` are hyperparameters, the most important first. Returns how many are drawn.
export async function drawParallel(box, configurations, names, metric) {
  const drawn = configurations.filter(({ best }) => Number.isFinite(toNumber(best)));
  const values = drawn.map(({ best }) => best);
  const runs = new Set(drawn.map(({ run }) => run));
  const shown = names.slice(0, AXES);
  const dimensions = [
    ...(runs.size > 1 ? [categories("experiment", drawn.map(({ run }) => run))] : []),
    ...shown.map((name) => dimension(name, drawn.map(({ params }) => params[name]))),
    dimension(`best ${metric}`, values),
  ];
  // Without a colour bar, which would set an inline style: the last axis has the values of the colours.
  const line = { color: values, colorscale: "Viridis", showscale: false };
  box.hidden = !drawn.length;
  if (drawn.length) await draw(box, [{ type: "parcoords", dimensions, line, labelangle: 0 }], { height: 420, width: Math.max(640, box.parentElement.clientWidth - 24, 110 * dimensions.length), margin: { l: 120, r: 60, t: 60, b: 30 } }, `Parallel coordinates of ${drawn.length} configurations: ${shown.join(", ")}, best ${metric}.`);
  return { drawn: drawn.length, axes: shown.length };
}

// A bar per hyperparameter and experiment.
export function drawImportance(box, runs, names) {
  const bars = runs.map(({ run, importance }, place) => ({
    type: "bar", orientation: "h", name: plain(run), y: names.map(plain), x: names.map((name) => importance[name] ?? 0),
    marker: { color: COLOURS[place % COLOURS.length], pattern: { shape: ["", "/", "x", ".", "-"][place % 5] } },
  }));
  const layout = { height: 120 + 26 * names.length * Math.max(1, runs.length * 0.7), xaxis: { range: [0, 1], gridcolor: "#dfe3ea", title: { text: "importance" } }, yaxis: { autorange: "reversed", automargin: true, ticks: "outside", ticklen: 6, tickcolor: "#fff" }, legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, showlegend: runs.length > 1 };
  return draw(box, bars, layout, `Importance of ${names.join(", ")}; the table has the values.`);
}
