// Requests to a pool over the REST API: send, follow and cancel.

import { RequestError, send } from "../udfs.web/shell.js";

const API = "/api/v1/";
const WAIT_S = 20;
const RETRY_MS = 1000;

export { RequestError };

export const pools = async () => (await send(`${API}pools`)).pools;
export const upload = async (file) => (await send(`${API}blobs`, { method: "POST", body: file })).sha256;
export const cancel = (id) => send(`${API}requests/${encodeURIComponent(id)}`, { method: "DELETE" });

const key = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export async function post(kind, document, { pool = null, replaces = null } = {}) {
  const body = { kind, document, pool, replaces };
  return (await send(`${API}requests`, { method: "POST", body, headers: { "Idempotency-Key": key() } })).request;
}

export const isSettled = ({ state }) => ["done", "failed", "cancelled"].includes(state);

// Yields a request after each change, until it is settled. A server that is away is asked again.
export async function* follow(request, signal) {
  yield request;
  while (!isSettled(request)) {
    const query = new URLSearchParams({ wait: WAIT_S, revision: request.revision });
    try {
      const reply = await send(`${API}requests/${encodeURIComponent(request.id)}?${query}`, { signal });
      const isNewer = reply.request.revision > request.revision;
      request = reply.request;
      if (isNewer) yield request;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RequestError && error.status < 500) throw error;
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

// The result of a short request; null if `signal` aborts it.
export async function answer(kind, document, { signal, ...options } = {}) {
  let last = await post(kind, document, options);
  for await (const request of follow(last, signal ?? new AbortController().signal)) last = request;
  if (last.state === "failed") throw new RequestError(422, "failed", last.message);
  return last.state === "done" ? last.result : null;
}
