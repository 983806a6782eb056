// Page with the list of experiments.

import * as api from "./api.js";
import { byId, element, setText } from "./dom.js";
import { number, time } from "./format.js";
import { follow } from "./stream.js";

const STATES = { running: "▶ running", ended: "✓ ended", failed: "✕ failed", away: "○ runner not connected" };

function row(item) {
  const link = element("a", { href: `experiments/${encodeURIComponent(item.run)}` }, item.name || item.run);
  const cells = [STATES[item.state] ?? item.state, item.procedure, String(item.configurations ?? ""), item.metric, number(item.best), time(item.created)];
  return element("tr", { "data-run": item.run }, element("th", { scope: "row" }, link), ...cells.map((cell) => element("td", {}, cell)));
}

let shape = "";
let timer = 0;
let cursor = 0;

async function refresh() {
  try {
    const experiments = await api.experiments();
    setText(byId("problem"), "");
    cursor = Math.max(cursor, ...experiments.map((each) => each.cursor));
    const next = JSON.stringify(experiments);
    if (next === shape) return;
    shape = next;
    const focused = document.activeElement?.closest?.("tr[data-run]")?.dataset.run;
    byId("experiments").tBodies[0].replaceChildren(...experiments.map(row));
    if (focused) byId("experiments").querySelector(`tr[data-run="${CSS.escape(focused)}"] a`)?.focus();
    byId("experiments").hidden = !experiments.length;
    byId("empty").hidden = experiments.length > 0;
  } catch (error) {
    if (!(error instanceof api.RequestError)) throw error;
    setText(byId("problem"), error.message);
  }
}

await refresh();
follow({
  since: cursor,
  changed: () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, 300);
  },
  status: (live) => setText(byId("connection"), live ? "● Live" : "○ Reconnecting"),
});
