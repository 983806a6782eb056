// Page of explanations: choose an image, send requests to a pool, and draw the heat map as it is refined.

import { HeatMap, score } from "./heat_map.js";
import { RequestError, answer, cancel, follow, isSettled, pools, post, upload } from "./requests.js";

const LARGEST = 16 * 2 ** 20;
const PAUSE_MS = 300;
const KIND = "explain";

const byId = (id) => document.getElementById(id);
const EDGES = ["left", "top", "right", "bottom"].map(byId);
const view = new HeatMap(byId("map"), byId("bar"));
const chosen = new URLSearchParams(location.search);

let image = null; // { sha256, name }
let current = null; // { request, controller, document }
let sending = null; // { isCancelled } of a request that the server has not acknowledged
let sent = 0; // counts requests, so that a late reply to an earlier one is ignored

const say = (text) => { if (byId("state").textContent !== text) byId("state").textContent = text; };
const complain = (text) => { byId("problem").textContent = text; };
const seconds = (value) => `${value < 1 ? Number(value.toPrecision(1)) : Number(value.toPrecision(2))} s`;
const pool = () => byId("pool").value || null;

function guard(call) {
  return async (...values) => {
    try {
      await call(...values);
    } catch (error) {
      if (error.name === "AbortError") return;
      complain(error instanceof RequestError ? error.message : "The server does not answer. Try again in a moment.");
      if (!(error instanceof RequestError || error instanceof TypeError)) throw error;
    }
  };
}

function option(value, text = value) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = text;
  return made;
}

// ---- pools and networks

async function loadPools() {
  const offering = (await pools()).filter(({ kinds, is_live: isLive }) => isLive && kinds.includes(KIND));
  byId("pool").replaceChildren(...offering.map(({ name }) => option(name)));
  if (offering.some(({ name }) => name === chosen.get("pool"))) byId("pool").value = chosen.get("pool");
  byId("pool-row").hidden = offering.length < 2;
  if (!offering.length) throw new RequestError(409, "no_pool", "No pool that explains images is connected. Start one with cerebro serve --master 'local[2]' --workers 2 --store URI, and load the page again.");
  await loadNetworks();
}

async function loadNetworks() {
  const reply = await answer("explain_networks", {}, { pool: pool() });
  const networks = (reply?.networks ?? []).map(({ name, has_weights: isTrained }) => option(name, isTrained ? name : `${name} (random weights)`));
  const [run, trial] = [chosen.get("run"), chosen.get("trial")];
  if (run && trial) networks.unshift(option(JSON.stringify({ run, trial }), `${trial} of ${run}`));
  byId("network").replaceChildren(...networks);
  await loadClasses();
}

const network = () => {
  const { value } = byId("network");
  return value.startsWith("{") ? JSON.parse(value) : value;
};

async function loadClasses() {
  byId("class").value = "";
  byId("class-names").replaceChildren();
  estimate();
  const wanted = byId("network").value;
  const reply = await answer("explain_networks", { network: network() }, { pool: pool() });
  if (byId("network").value === wanted) byId("class-names").replaceChildren(...(reply?.class_names ?? []).map((name) => option(name)));
}

// ---- the image

const choose = guard(async (file) => {
  complain("");
  if (!file) return;
  if (file.size > LARGEST) throw new RequestError(413, "too_large", `${file.name} must have at most 16 MiB, got ${(file.size / 2 ** 20).toFixed(1)} MiB. Choose a smaller image.`);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new RequestError(422, "no_image", `${file.name} is not an image that the browser can show. Choose a PNG, JPEG or WebP file.`);
  }
  stop();
  clearRegion();
  image = null;
  view.setImage(bitmap);
  byId("result").hidden = byId("scale").hidden = true;
  byId("value").textContent = "";
  byId("file-note").textContent = `${file.name}, ${bitmap.width} × ${bitmap.height} pixels`;
  say("Uploading the image.");
  image = { sha256: await upload(file), name: file.name };
  say("Ready.");
  estimate();
});

byId("file").addEventListener("change", ({ target }) => choose(target.files[0]));
const drop = byId("drop");
for (const where of [drop, byId("map")]) {
  where.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  where.addEventListener("dragleave", () => drop.classList.remove("over"));
  where.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    byId("file").files = event.dataTransfer.files; // shows the name
    choose(event.dataTransfer.files[0]);
  });
}

// ---- the region

function region() {
  const edges = EDGES.map(({ value }) => value.trim());
  if (edges.every((edge) => !edge)) return null;
  if (edges.some((edge) => !/^\d+$/.test(edge))) throw new RequestError(422, "region", "region must have four whole numbers: left, top, right and bottom. Write all of them, or none for the whole image.");
  return edges.map(Number);
}

function setRegion(edges) {
  EDGES.forEach((field, place) => { field.value = edges[place]; });
  view.selection = edges;
  view.draw();
}

function clearRegion() {
  EDGES.forEach((field) => { field.value = ""; });
  view.selection = null;
}

// ---- requests

function documentOf() {
  const [patch, stride] = [Number(byId("patch").value), Number(byId("stride").value)];
  return { image: image?.sha256 ?? null, network: network(), patch, stride, mode: byId("mode").value, class: byId("class").value.trim() || null, region: region() };
}

function show(request, document) {
  current.request = request;
  const { state, message } = request;
  const map = request.result ?? request.progress;
  const percent = Math.round(100 * (map?.fraction ?? 0));
  byId("cancel").disabled = isSettled(request);
  byId("fraction").hidden = isSettled(request);
  byId("fraction").value = map?.fraction ?? 0;
  if (map) drawMap(request.id, map, document);
  if (state === "pending") say("Waiting for earlier requests of the pool.");
  else if (state === "failed") { say("Failed."); complain(message); }
  else if (state === "cancelled") say(`Cancelled after ${percent} % of the places.`);
  else if (state === "done") say(`Done in ${seconds(map.measured_s)}, predicted: ${seconds(map.predicted_s)}.`);
  else if (!map) say("Opening the network.");
  else say(`${percent} % of the places, predicted: ${seconds(map.predicted_s)} in total.`);
}

function drawMap(id, map, document) {
  view.show(id, { ...map, image: document.image, network: document.network }, document.region !== null);
  const { scale } = view;
  byId("scale").hidden = byId("result").hidden = false;
  byId("high").textContent = score(scale.high);
  byId("low").textContent = score(scale.low);
  byId("classes").replaceChildren(...map.classes.map(([name, value, number]) => {
    const row = window.document.createElement("tr");
    for (const [text, kind] of [[name === `class ${number}` ? name : `${name} (${number})`, ""], [score(value), "number"]]) {
      const cell = window.document.createElement("td");
      cell.textContent = text;
      cell.className = kind;
      row.append(cell);
    }
    return row;
  }));
  const facts = [
    ["Mapped class", `${map.class_name}, ${score(map.probability)} without a patch`],
    ["Places", `${map.rows} × ${map.columns}`],
    ["Predicted time", seconds(map.predicted_s)],
    ["Measured time", map.measured_s === undefined ? "running" : seconds(map.measured_s)],
    ["Score", map.score],
  ];
  if (map.has_random_weights) facts.push(["Warning", "The network has random weights: the map is meaningless."]);
  if (scale.isFlat && map.measured_s !== undefined) facts.push(["Flat", "No place changes the score by more than rounding."]);
  if (map.likeness !== undefined && map.likeness !== null) facts.push(["Estimated SSIM", `${score(map.likeness)} with the exact map`]);
  for (const note of map.notes ?? []) facts.push(["Note", note]);
  byId("facts").replaceChildren(...facts.flatMap(([term, text]) => {
    const [name, description] = [window.document.createElement("dt"), window.document.createElement("dd")];
    name.textContent = term;
    description.textContent = text;
    return [name, description];
  }));
  readCursor();
}

// Stop following the request in progress, which the next one replaces.
function stop() {
  sent += 1;
  current?.controller.abort();
}

const explain = guard(async () => {
  complain("");
  if (!image) throw new RequestError(422, "no_image", "image must be chosen first. Choose a file, or drop it on the page.");
  const wanted = documentOf();
  const replaces = current && !isSettled(current.request) ? current.request.id : null;
  stop();
  const [number, mine] = [sent, { isCancelled: false }];
  sending = mine;
  byId("cancel").disabled = false;
  say("Sending the request.");
  let request;
  try {
    request = await post(KIND, wanted, { pool: pool(), replaces });
  } catch (error) {
    if (number === sent) say("Not sent.");
    throw error;
  } finally {
    if (sending === mine) sending = null;
  }
  if (mine.isCancelled || number !== sent) await cancel(request.id);
  if (number !== sent) return;
  current = { request, controller: new AbortController(), document: wanted };
  for await (const change of follow(request, current.controller.signal)) {
    if (number !== sent) return;
    show(change, wanted);
  }
  estimate();
});

byId("request").addEventListener("submit", (event) => {
  event.preventDefault();
  explain();
});

byId("cancel").addEventListener("click", guard(async () => {
  byId("cancel").disabled = true;
  if (sending) {
    sending.isCancelled = true;
    return;
  }
  try {
    await cancel(current.request.id);
  } catch (error) {
    if (error.status !== 409) throw error; // done meanwhile
  }
}));

byId("whole").addEventListener("click", () => {
  clearRegion();
  view.draw();
  estimate();
});

for (const field of EDGES) {
  field.addEventListener("change", () => {
    if (EDGES.every(({ value }) => /^\d+$/.test(value))) setRegion(EDGES.map(({ value }) => Number(value)));
    estimate();
  });
}

// ---- predicted time, before the request

let timer = 0;
let estimated = null;

function estimate() {
  clearTimeout(timer);
  estimated?.abort();
  const controller = (estimated = new AbortController());
  timer = setTimeout(async () => {
    try {
      const wanted = documentOf();
      if (wanted.region && !image) wanted.region = null;
      const reply = await answer("explain_estimate", wanted, { pool: pool(), signal: controller.signal });
      if (reply && !controller.signal.aborted) byId("estimate").textContent = `About ${seconds(reply.predicted_s)} for ${reply.places} places.`;
    } catch (error) {
      if (!controller.signal.aborted) byId("estimate").textContent = error instanceof RequestError ? error.message : "";
    }
  }, PAUSE_MS);
}

// A stride above the patch leaves pixels uncovered.
function limitStride() {
  const patch = Number(byId("patch").value);
  for (const each of byId("stride").options) each.disabled = Number(each.value) > patch;
  if (byId("stride").selectedOptions[0].disabled) byId("stride").value = String(patch);
}

byId("patch").addEventListener("change", limitStride);
for (const id of ["patch", "stride", "mode"]) byId(id).addEventListener("change", estimate);
byId("network").addEventListener("change", guard(loadClasses));
byId("pool").addEventListener("change", guard(loadNetworks));

// ---- values, by pointer and keyboard, and a rectangle by the pointer

const canvas = byId("map");

function pointOf({ clientX, clientY }) {
  const box = canvas.getBoundingClientRect();
  const x = ((clientX - box.left - canvas.clientLeft) * canvas.width) / canvas.clientWidth;
  const y = ((clientY - box.top - canvas.clientTop) * canvas.height) / canvas.clientHeight;
  return [Math.max(0, Math.min(canvas.width, x)), Math.max(0, Math.min(canvas.height, y))];
}

function readCursor() {
  if (!view.cursor) return;
  const { layer, row, column } = view.cursor;
  const same = view.layers.find(({ id }) => id === layer.id);
  view.cursor = same && row < same.rows && column < same.columns ? { layer: same, row, column } : null;
  byId("value").textContent = view.cursor ? view.describe(view.cursor) : "";
}

function moveTo(place) {
  view.cursor = place;
  readCursor();
  view.draw();
}

let drag = null;

canvas.addEventListener("pointerdown", (event) => {
  if (!image || event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  drag = pointOf(event);
});

canvas.addEventListener("pointermove", (event) => {
  const [x, y] = pointOf(event);
  if (!drag) {
    moveTo(view.placeAt(x, y));
    return;
  }
  view.selection = rectangle(drag, [x, y]);
  view.draw();
});

canvas.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const edges = rectangle(drag, pointOf(event));
  drag = null;
  // A click is no rectangle.
  if (edges[2] - edges[0] < 4 || edges[3] - edges[1] < 4) {
    view.selection = null;
    moveTo(view.placeAt(...pointOf(event)));
    return;
  }
  setRegion(edges);
  estimate();
  explain();
});

function endDrag() {
  drag = null;
  view.selection = null;
  view.draw();
}

canvas.addEventListener("pointercancel", endDrag);

function rectangle([x, y], [otherX, otherY]) {
  const low = (first, second) => Math.floor(Math.min(first, second));
  const high = (first, second, extent) => Math.min(extent, Math.ceil(Math.max(first, second)));
  return [low(x, otherX), low(y, otherY), high(x, otherX, canvas.width), high(y, otherY, canvas.height)];
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

canvas.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && drag) endDrag();
  const step = STEPS[event.key];
  const layer = view.layers.at(-1);
  if (!step || !layer) return;
  event.preventDefault();
  const at = view.cursor?.layer.id === layer.id ? view.cursor : { row: Math.floor(layer.rows / 2), column: Math.floor(layer.columns / 2) };
  const row = Math.max(0, Math.min(layer.rows - 1, at.row + step[0]));
  const column = Math.max(0, Math.min(layer.columns - 1, at.column + step[1]));
  moveTo({ layer, row, column });
});

byId("shown").addEventListener("change", ({ target }) => {
  view.isShown = target.checked;
  view.draw();
});

limitStride();
if (!document.querySelector("#request fieldset").disabled) guard(loadPools)().then(() => { document.body.dataset.ready = "true"; });

