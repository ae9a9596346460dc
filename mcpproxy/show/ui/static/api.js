// @ts-check
/** Requests to the server of the page; in an exported page, to the recording that it contains. */
import { receive } from "./event_stream.js";
import { bearer, findKey } from "./key.js";

/** An answer with an error status. The message is the text of the answer. */
export class ApiError extends Error {}

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */

/** Whether this page is a file that `mcpproxy export html` wrote. */
export const isExported = document.getElementById("recording") !== null;
const offline = isExported ? import("./offline.js") : null;
/** @type {Promise<string> | null} */
let key = null;

/** Return the key of the page. If the server cannot be reached, the next request tries again. */
function foundKey() {
  key ??= findKey().catch((error) => {
    key = null;
    throw error;
  });
  return key;
}

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
  return parsed(await request(address(path, query), { signal }));
}

/**
 * Send a request with the key of the page.
 *
 * @param {string} url
 * @param {{method?: string, headers?: Record<string, string>, body?: string, signal?: AbortSignal}} [options]
 */
export async function request(url, options = {}) {
  return fetch(url, { ...options, headers: { ...options.headers, ...bearer(await foundKey()) } });
}

/**
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<any>} the JSON value
 */
export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return parsed(await request(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

/** @param {Response} response */
async function parsed(response) {
  if (response.ok) return response.json();
  const text = (await response.text()).trim();
  throw new ApiError(text || `the server answered ${response.status}`);
}

/**
 * Receive the events of a stream. If the connection is lost, the page connects again.
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
  const ending = new AbortController();
  const { signal } = ending;
  receive((headers) => request(address(path, query), { headers, signal }), handlers, signal);
  return () => ending.abort();
}
