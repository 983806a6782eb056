"""Live page: one HTML document without a framework, which requests ``/status`` each second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["live_page"]

# Names of models are untrusted: the script inserts them as text, never as HTML.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cerebro-spark: serving</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222; }
  h1 { font-size: 1.3rem; margin-bottom: 0; }
  h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
  table { border-collapse: collapse; width: 100%; }
  th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; vertical-align: top; }
  th:first-child, td:first-child, .words { text-align: left; }
  .scrolls { overflow-x: auto; }
  .bad { color: #b00020; font-weight: 600; }
  .state:not(.bad), .sentence { color: #666; } .state, .sentence { margin: .2rem 0; }
  .charts { display: flex; flex-wrap: wrap; gap: 1rem; }
  figure { margin: 0; } figcaption { max-width: 320px; overflow-wrap: anywhere; }
  figcaption, .span { color: #666; font-size: .85rem; } .span { display: flex; justify-content: space-between; }
  svg { display: block; border-bottom: 1px solid #999; border-left: 1px solid #999; }
</style>
</head>
<body>
<h1>Serving</h1>
<p class="state" id="state">connecting</p>
<form id="ask" hidden>
  <label>Token <input id="token" type="password" autocomplete="off"></label> <button>Sign in</button>
</form>
<main id="main" hidden>
<p class="state"><span id="product"></span>, refreshed <time id="time"></time></p>
<h2>Models</h2>
<p class="sentence">Requests over HTTP. Rate, share in time and latencies are those of the last minute.</p>
<div class="scrolls"><table><thead><tr>
  <th>model</th><th>version</th><th>deadline ms</th><th>requests/s</th><th>in time</th><th>p50 ms</th><th>p99 ms</th>
  <th>in flight</th>
</tr></thead><tbody id="models"></tbody></table></div>
<h2>Last 15 minutes</h2>
<p class="sentence">Each point is half a minute. The lower end of a chart is 0, the upper one its largest value.</p>
<div class="charts" id="charts"></div>
<h2>Results since the start</h2>
<p class="sentence">Late answers arrived after the deadline; the columns after them had no answer.</p>
<div class="scrolls"><table><thead><tr>
  <th>model</th><th>version</th><th>in time</th><th>late</th><th>too late</th><th>overloaded</th><th>failed</th>
  <th>stopped</th><th>disconnected</th><th>bad request</th><th>no such model</th>
</tr></thead><tbody id="results"></tbody></table></div>
<p class="sentence" id="refused"></p>
<h2>Backends</h2>
<p class="sentence">Occupancy is the share of a backend's time that the planned rates need. Restarts count the
  processes that took the place of a lost one. The plan names the models of a backend and the rows of their batches.</p>
<div class="scrolls"><table><thead><tr>
  <th>backend</th><th class="words">host</th><th class="words">state</th><th>occupancy</th><th>waiting rows</th>
  <th>restarts</th><th class="words">plan</th>
</tr></thead><tbody id="backends"></tbody></table></div>
<h2>Other metrics</h2>
<div class="scrolls"><table><tbody id="gauges"></tbody></table></div>
</main>
<template id="chart"><figure>
  <figcaption></figcaption>
  <svg width="320" height="70"><path fill="none" stroke="#1f77b4" stroke-width="2" stroke-linecap="round"/></svg>
  <div class="span"><span>15 minutes ago</span><span>now</span></div>
</figure></template>
<script>
"use strict";
const at = id => document.getElementById(id);
const hash = new URLSearchParams(location.hash.slice(1)).get("token");
let token = hash || sessionStorage.getItem("token") || "";
if (hash) history.replaceState(null, "", location.pathname);
const number = (value, digits) => value === null || value === undefined ? "-" : value.toFixed(digits);
const share = value => value === null || value === undefined ? "-" : number(100 * value, 1) + " %";
const row = cells => {
  const line = document.createElement("tr");
  for (const [text, style] of cells) {
    const cell = document.createElement("td");
    cell.textContent = text;
    if (style) cell.className = style;
    line.append(cell);
  }
  return line;
};
const WIDTH = 320, HEIGHT = 70, SPAN = 900;
const whole = value => number(value, Number.isInteger(value) ? 0 : 2);
const chart = (title, steps, unit, digits) => {
  const known = steps.filter(([, value]) => value !== null).map(([, value]) => value);
  const most = Math.max(...known, 0);
  const figure = at("chart").content.firstElementChild.cloneNode(true);
  // A line ends where half a minute has no value; a point alone is a line to itself.
  const point = ([age, value]) => (WIDTH * (1 - age / SPAN)).toFixed(1) + "," +
    (HEIGHT - 4 - (HEIGHT - 8) * (most ? value / most : 0)).toFixed(1);
  figure.querySelector("path").setAttribute("d", steps.map((step, place) => {
    if (step[1] === null) return "";
    const continues = place && steps[place - 1][1] !== null;
    return (continues ? "L" : "M" + point(step) + "L") + point(step);
  }).join(""));
  const largest = known.length ? "at most " + number(most, digits) + " " + unit : "no requests";
  figure.querySelector("figcaption").textContent = title + ": " + largest;
  return figure;
};
const KINDS = ["in_time", "late", "too_late", "overloaded", "failed", "stopped", "disconnected", "bad_request",
  "no_such_model"];
const OF_BACKENDS = new Set(["planned_occupancy", "planned_batch", "waiting", "backend_restarts"]);
const backends = gauges => {
  const found = new Map();
  for (const gauge of gauges.filter(each => OF_BACKENDS.has(each.name))) {
    const name = gauge.labels.backend;
    if (!found.has(name)) found.set(name, {batches: []});
    const entry = found.get(name);
    if (gauge.name === "planned_batch") entry.batches.push(gauge.labels.session + " (" + gauge.value + ")");
    else entry[gauge.name] = gauge.value;
    if (gauge.name === "backend_restarts") { entry.host = gauge.labels.host; entry.connected = gauge.labels.connected; }
  }
  return [...found].sort().map(([name, entry]) => row([
    [name], [entry.host || "-", "words"],
    entry.connected === "yes" ? ["connected", "words"] : ["not connected", "words bad"],
    [share(entry.planned_occupancy)], [number(entry.waiting, 0)],
    [number(entry.backend_restarts, 0), entry.backend_restarts ? "bad" : ""],
    [entry.batches.join(", ") || "-", "words"],
  ]));
};
const show = status => {
  at("product").textContent = status.product + " " + status.version;
  at("time").textContent = new Date(status.time).toLocaleTimeString();
  at("time").dateTime = status.time;
  at("models").replaceChildren(...status.models.map(model => row([
    [model.name], [model.version], [number(model.slo_ms, 0)], [number(model.rate, 1)],
    [share(model.in_time), model.in_time !== null && model.in_time < 0.99 ? "bad" : ""],
    [number(model.p50_ms, 1)], [number(model.p99_ms, 1)], [model.in_flight],
  ])));
  at("charts").replaceChildren(...status.models.flatMap(model => {
    const name = model.name + " " + model.version;
    return [
      chart(name + ", rate", model.history.map(step => [step.age_s, step.rate]), "requests/s", 1),
      chart(name + ", p99", model.history.map(step => [step.age_s, step.p99_ms]), "ms", 0),
    ];
  }));
  at("results").replaceChildren(...status.models.map(model => row([[model.name], [model.version],
    ...KINDS.map((kind, place) => [model.results[kind] || 0, place && model.results[kind] ? "bad" : ""])])));
  const refused = Object.entries(status.refused).map(([why, count]) => count + " " + why.replaceAll("_", " "));
  at("refused").textContent = refused.length ? "Refused without a model: " + refused.join(", ") + "." : "";
  at("backends").replaceChildren(...backends(status.gauges));
  at("gauges").replaceChildren(...status.gauges.filter(gauge => !OF_BACKENDS.has(gauge.name)).map(gauge => row([
    [gauge.name + " " + Object.entries(gauge.labels).map(([key, value]) => key + "=" + value).join(" ")],
    [whole(gauge.value)], [status.sentences[gauge.name] || "", "words"],
  ])));
  say(status.ready ? "ready" : "not every model has a backend", !status.ready);
};
const say = (text, bad) => { at("state").textContent = text; at("state").className = bad ? "state bad" : "state"; };
const poll = async () => {
  try {
    const reply = await fetch("status", {headers: token ? {Authorization: "Bearer " + token} : {}, cache: "no-store"});
    at("ask").hidden = reply.status !== 401;
    at("main").hidden = !reply.ok;
    if (reply.ok) { sessionStorage.setItem("token", token); show(await reply.json()); }
    else if (reply.status === 401) say("enter the token of this server", false);
    else say("the server answers with status " + reply.status, true);
  } catch (error) {
    say("the server does not answer", true);
  }
};
at("ask").addEventListener("submit", event => { event.preventDefault(); token = at("token").value; poll(); });
poll();
setInterval(poll, 1000);
</script>
</body>
</html>
"""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def live_page(_request: Request) -> Response:
    """Return the page, which has no numbers: its script requests them, with the token."""
    return HTMLResponse(_PAGE, headers=_HEADERS)
