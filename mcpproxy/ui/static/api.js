// @ts-check
/** Requests to the server of the page; in an exported page, to the recording that it contains. */

/** An answer with an error status. The message is the text of the answer. */
export class ApiError extends Error {}

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */

/** Whether this page is a file that `mcpproxy export html` wrote. */
export const isExported = document.getElementById("recording") !== null;
const offline = isExported ? import("./offline.js") : null;

/**
 * @param {string} path
 * @param {Query} [query]
 */
export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/**
 * @param {string} path
 * @param {Query} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>} the JSON value
 */
export async function get(path, query, signal) {
  if (offline) return (await offline).answer(path, query ?? {});
  return parsed(await fetch(address(path, query), { signal }));
}

/**
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<any>} the JSON value
 */
export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return parsed(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

/** @param {Response} response */
async function parsed(response) {
  if (response.ok) return response.json();
  const text = (await response.text()).trim();
  throw new ApiError(text || `the server answered ${response.status}`);
}

/**
 * Receive the events of a stream. If the connection is lost, the browser connects again, with `Last-Event-ID`.
 *
 * @param {string} path
 * @param {Query} query
 * @param {Record<string, (data: any) => void>} handlers by the name of the event; `failed` is called if the stream was refused, `lost` when the connection is lost, `opened` when there is one
 * @returns {() => void} ends the stream
 */
export function subscribe(path, query, handlers) {
  if (offline) {
    const ending = offline.then((module) => module.subscribe(path, query, handlers));
    return () => void ending.then((end) => end());
  }
  const source = new EventSource(address(path, query));
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(event.data ? JSON.parse(event.data) : null));
  }
  // The browser connects again after the connection was lost, but not after the request was refused.
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) handlers.failed?.(null);
    else handlers.lost?.(null);
  });
  source.addEventListener("open", () => handlers.opened?.(null));
  return () => source.close();
}
