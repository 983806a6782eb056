// Live page: requests `status` each second. Names of models are untrusted and inserted as text.

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
  at("version").textContent = status.version;
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
