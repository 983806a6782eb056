// Requests that a pool of workers answers: sent once, and waited for until they end.

import * as api from "./api.js";

const WAIT_S = 15;
const RETRY_MS = 2000;

// A repeated attempt has the same key, so that the server accepts it once.
// Browsers have random UUIDs on secure origins only.
export const newKey = () => crypto.randomUUID?.() ?? crypto.getRandomValues(new Uint32Array(4)).join("-");

// A request in flight. `result` resolves to its result, or rejects with the reason why there is none.
export class Request {
  constructor(kind, document, { pool = null, replaces = null, key = newKey(), changed = () => {} } = {}) {
    Object.assign(this, { kind, changed, record: null, ended: false });
    this.result = this.run({ kind, document, pool, replaces }, key).finally(() => { this.ended = true; });
  }

  get id() {
    return this.record?.id ?? null;
  }

  async run(body, key) {
    this.update(await api.sendRequest(body, key));
    while (["pending", "running"].includes(this.record.state)) {
      try {
        this.update(await api.waitFor(this.record.id, this.record.revision, WAIT_S));
      } catch (error) {
        // The request is on the server's disk, so that an answer which is lost is asked for again.
        if (error.status && error.status < 500) throw error;
        this.changed(this.record, error);
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
    if (this.record.state === "done") return this.record.result;
    throw new api.RequestError(this.record.state === "cancelled" ? 499 : 422, this.record.state, this.record.message || `The request was ${this.record.state}.`);
  }

  update(record) {
    this.record = record;
    this.changed(record, null);
  }

  async cancel() {
    if (this.id && !this.ended) await api.cancelRequest(this.id);
  }
}
