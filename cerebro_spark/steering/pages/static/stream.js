// One event stream per browser. The tab that has the lock reads it, and tells the others by a broadcast channel.
//
// An event only says that an experiment has changed. A tab then requests what is new since its own cursor, so that
// neither a change of the reading tab nor a sleep of this one can leave a gap or count an event twice.

import { address } from "./api.js";

const RETRY_MS = [500, 1000, 2000, 5000];
// The server sends a comment each 15 seconds, which EventSource does not show, so only errors end a connection.

// `since` is the last event that the page has; `changed` gets {experiment}, null for all of them.
export function follow({ since, changed, status }) {
  const channel = "BroadcastChannel" in window ? new BroadcastChannel(`cerebro-events ${address("")}`) : null;
  let last = since;
  let failures = 0;

  const publish = (message) => {
    deliver(message);
    channel?.postMessage(message);
  };
  const deliver = (message) => {
    if (message.kind === "status") status(message.live);
    if (message.kind === "changed") changed(message);
    if (message.kind === "question" && reading) channel?.postMessage({ kind: "status", live: source?.readyState === 1 });
    if (message.last > last) last = message.last;
  };

  let source = null;
  let reading = false;
  const open = () => {
    source = new EventSource(address(`events?since=${last}`));
    source.onopen = () => {
      // What happened since the last event of a dropped connection is requested even if no event follows.
      failures = 0;
      publish({ kind: "status", live: true });
      publish({ kind: "changed", experiment: null });
    };
    const receive = ({ data, lastEventId }) => publish({ kind: "changed", experiment: JSON.parse(data).run, last: Number(lastEventId) });
    for (const name of ["message", "orders", "units", "command", "experiment"]) source.addEventListener(name, receive);
    source.onerror = () => {
      publish({ kind: "status", live: false });
      // The browser itself retries a connection that broke, and gives up after a reply such as 502.
      if (source.readyState !== EventSource.CLOSED) return;
      source.close();
      setTimeout(open, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
      failures += 1;
    };
  };
  const read = () => {
    reading = true;
    open();
    return new Promise(() => {}); // The lock ends with the tab.
  };

  if (channel) channel.onmessage = (event) => deliver(event.data);
  // Browsers have locks on secure origins only; elsewhere each tab reads a stream.
  if (channel && navigator.locks) {
    navigator.locks.request(`cerebro-events ${address("")}`, read);
    channel.postMessage({ kind: "question" });
    // What happened between the page's requests and this subscription.
    changed({ experiment: null });
  } else read();

  // A tab that slept has missed broadcasts.
  const wake = () => document.visibilityState === "visible" && changed({ experiment: null });
  document.addEventListener("visibilitychange", wake);
  window.addEventListener("pageshow", (event) => event.persisted && wake());
  window.addEventListener("online", wake);
}
