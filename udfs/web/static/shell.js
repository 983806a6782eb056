// Shared by all pages: requests with the token of the page, the notice, and sign-out.

const meta = (name) => document.querySelector(`meta[name="${name}"]`);

/** Path prefix of the application, "" without a proxy. */
export const root = meta("root-path").content;

/** Name and role of the user. */
export const user = { name: meta("user").content, role: meta("user").dataset.role };

/** Error of a request, with the code and message that the server replied. */
export class RequestError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * Send a request to a path below the prefix and return the JSON document of the response, null for an empty one.
 * A Blob or File is sent as it is, any other body as JSON.
 * @param {string} path for example "/api/v1/experiments"
 * @param {{method?: string, body?: any, headers?: Object<string, string>, signal?: AbortSignal}} options
 */
export async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  const isFile = body instanceof Blob;
  const response = await fetch(root + path, {
    method,
    signal,
    credentials: "same-origin",
    headers: {
      Accept: "application/json",
      "X-CSRF-Token": meta("csrf-token").content,
      ...(body === undefined ? {} : { "Content-Type": isFile ? "application/octet-stream" : "application/json" }),
      ...headers,
    },
    body: body === undefined || isFile ? body : JSON.stringify(body),
  });
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : null;
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    // A proxy replied with a page of its own.
  }
  throw new RequestError(response.status, error.code ?? "http", error.message ?? `HTTP ${response.status}`);
}

/** Show a sentence to the user; screen readers read it. */
export function notify(message) {
  document.getElementById("notice").textContent = message;
}

document.getElementById("sign-out")?.addEventListener("click", async () => {
  try {
    await send("/sign-out", { method: "POST" });
    location.assign(`${root}/sign-in`);
  } catch (error) {
    notify(error.message);
  }
});
