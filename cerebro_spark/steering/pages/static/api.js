// Client of the REST API. Addresses begin with the path prefix of the application.

import { RequestError, root, send as request } from "../udfs.web/shell.js";

const API = "/api/v1/";
const TIMEOUT_MS = 20000;

export { RequestError };

export const address = (path) => `${root}${API}${path}`;

async function call(method, path, options = {}) {
  try {
    return await request(API + path, { method, signal: AbortSignal.timeout(TIMEOUT_MS), ...options });
  } catch (error) {
    if (error instanceof RequestError) throw error;
    throw new RequestError(0, "unreachable", "The server does not answer. Training continues without it. Try again in a moment.");
  }
}

const of = (run) => `experiments/${encodeURIComponent(run)}`;
// A query string of the values that are set.
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined));

export const experiments = async () => (await call("GET", "experiments")).experiments;
export const experiment = async (run) => (await call("GET", of(run))).experiment;
export const configurations = async (run) => (await call("GET", `${of(run)}/configurations`)).configurations;
export const metrics = (run, name, since) => call("GET", `${of(run)}/metrics?${query({ name, since })}`);
export const units = (run, since) => call("GET", `${of(run)}/units?${query({ since })}`);
export const commands = async (run) => (await call("GET", `${of(run)}/commands`)).commands;
export const effect = async (run, body) => (await call("POST", `${of(run)}/effects`, { body })).effect;
export async function send(run, body, key) {
  return (await call("POST", `${of(run)}/commands`, { body, headers: { "Idempotency-Key": key } })).command;
}
export const effects = (run, body) => call("POST", `${of(run)}/effects/bulk`, { body });
export const sendAll = (run, body, key) => call("POST", `${of(run)}/commands/bulk`, { body, headers: { "Idempotency-Key": key } });
export const withdraw = (id) => call("DELETE", `commands/${encodeURIComponent(id)}`);
export const narrowed = (run, best) => call("GET", `${of(run)}/narrowed?${query({ best })}`);
export const importance = async (run) => (await call("GET", `${of(run)}/importance`)).importance;
export const bestSoFar = async (run) => (await call("GET", `${of(run)}/best`)).steps;
export const models = async () => (await call("GET", "models")).models;
export const pools = async () => (await call("GET", "pools")).pools;
export const sendRequest = async (body, key) => (await call("POST", "requests", { body, headers: { "Idempotency-Key": key } })).request;
export const cancelRequest = (id) => call("DELETE", `requests/${encodeURIComponent(id)}`);
export async function waitFor(id, revision, wait) {
  const signal = AbortSignal.timeout(wait * 1000 + TIMEOUT_MS);
  return (await call("GET", `requests/${encodeURIComponent(id)}?${query({ wait, revision })}`, { signal })).request;
}
export const requests = async (run) => (await call("GET", `requests?${query({ run })}`)).requests;
export const upload = (file) => call("POST", "blobs", { body: file });
export const corrections = async (run) => (await call("GET", `${of(run)}/corrections`)).corrections;
export const correct = (run, body) => call("POST", `${of(run)}/corrections`, { body });
export const withdrawCorrection = (run, number) => call("DELETE", `${of(run)}/corrections/${number}`);
export const csvAddress = (run, column) => address(`${of(run)}/corrections.csv?${query({ id_column: column || "id" })}`);
