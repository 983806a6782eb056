// Requests of the page for data debugging: corrections, and questions to the pool of the search.

import { RequestError, root, send } from "../udfs.web/shell.js";

const API = "/api/v1/";
const WAIT_S = 20;

export { RequestError };

async function call(method, path, body, headers = {}, seconds = 20) {
  try {
    return await send(API + path, { method, body, headers, signal: AbortSignal.timeout(seconds * 1000) });
  } catch (error) {
    if (error instanceof RequestError) throw error;
    throw new RequestError(0, "unreachable", "The server does not answer. Try again in a moment.");
  }
}

const of = (run) => `experiments/${encodeURIComponent(run)}`;
const request = (id) => `requests/${encodeURIComponent(id)}`;

export const corrections = async (run) => (await call("GET", `${of(run)}/corrections`)).corrections;
export const correct = async (run, body) => (await call("POST", `${of(run)}/corrections`, body)).correction;
export const withdraw = (run, number) => call("DELETE", `${of(run)}/corrections/${number}`);
export const csvAddress = (run, column) => `${root}${API}${of(run)}/corrections.csv?${new URLSearchParams({ id_column: column || "id" })}`;

export const ask = async (kind, document, key) => (await call("POST", "requests", { kind, document }, { "Idempotency-Key": key })).request;
export const cancel = (id) => call("DELETE", request(id));
export const requests = async (run) => (await call("GET", `requests?${new URLSearchParams({ run })}`)).requests;

// The record of a request once it has changed since `revision`.
export const changed = async (id, revision) => (await call("GET", `${request(id)}?wait=${WAIT_S}&revision=${revision}`, undefined, {}, WAIT_S + 20)).request;
