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
<title>Serving</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; }
  h1 { font-size: 1.3rem; }
  table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
  th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
  th:first-child, td:first-child { text-align: left; }
  .bad { color: #b00020; font-weight: 600; }
  .state { color: #666; }
</style>
</head>
<body>
<h1>Models</h1>
<p class="state" id="state">connecting</p>
<form id="ask" hidden>
  <label>Token <input id="token" type="password" autocomplete="off"></label> <button>Show</button>
</form>
<table><thead><tr>
  <th>model</th><th>version</th><th>SLO ms</th><th>requests/s</th><th>in time</th><th>p50 ms</th><th>p99 ms</th>
  <th>in flight</th><th>late</th><th>dropped</th>
</tr></thead><tbody id="models"></tbody></table>
<table><tbody id="gauges"></tbody></table>
<script>
"use strict";
const at = id => document.getElementById(id);
const hash = new URLSearchParams(location.hash.slice(1)).get("token");
let token = hash || sessionStorage.getItem("token") || "";
if (hash) history.replaceState(null, "", location.pathname);
const number = (value, digits) => value === null ? "-" : value.toFixed(digits);
const share = value => value === null ? "-" : number(100 * value, 1) + " %";
const row = cells => {
  const line = document.createElement("tr");
  for (const [text, bad] of cells) {
    const cell = document.createElement("td");
    cell.textContent = text;
    if (bad) cell.className = "bad";
    line.append(cell);
  }
  return line;
};
const count = (results, names) => names.reduce((sum, name) => sum + (results[name] || 0), 0);
const dropped = ["too_late", "overloaded", "failed", "stopped"];
const show = status => {
  at("models").replaceChildren(...status.models.map(model => row([
    [model.name], [model.version], [number(model.slo_ms, 0)], [number(model.rate, 1)],
    [share(model.in_time), model.in_time !== null && model.in_time < 0.99],
    [number(model.p50_ms, 1)], [number(model.p99_ms, 1)], [model.in_flight],
    [count(model.results, ["late"])], [count(model.results, dropped)],
  ])));
  at("gauges").replaceChildren(...status.gauges.map(gauge => row([
    [gauge.name + " " + Object.entries(gauge.labels).map(([key, value]) => key + "=" + value).join(" ")],
    [number(gauge.value, 2)],
  ])));
  at("state").textContent = (status.ready ? "ready" : "not every model has a backend") +
    "; rates, shares and latencies of the last minute, counts since the start";
};
const poll = async () => {
  try {
    const reply = await fetch("status", {headers: token ? {Authorization: "Bearer " + token} : {}, cache: "no-store"});
    at("ask").hidden = reply.status !== 401;
    if (reply.ok) { sessionStorage.setItem("token", token); show(await reply.json()); }
    else at("state").textContent = reply.status === 401 ? "enter the token of this server" : "status " + reply.status;
  } catch (error) {
    at("state").textContent = "the server does not answer";
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
