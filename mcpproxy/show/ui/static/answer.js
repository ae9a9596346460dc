// @ts-check
/** The answer that a view shows. One that comes late never stands below a newer choice. */
import { address, get } from "./api.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { useThrottled } from "./throttle.js";

/** How long an answer about a running recording stays as it is. */
const LIVE_MS = 1000;

/**
 * Return the answer to a request, null until it comes, and what is shown until then. The request is sent again when
 * `version` changes. If that fails, the answer before it stays.
 *
 * @param {string} path empty if nothing is asked for
 * @param {import("./api.js").Query} [query]
 * @param {number} [version]
 * @returns {[any, any]}
 */
export function useAnswer(path, query = {}, version = 0) {
  const url = path && address(path, query);
  const [found, setFound] = useState({ url: "", answer: /** @type {any} */ (null), error: "" });
  const sent = useRef(0);
  const shown = useRef(0);
  const now = useThrottled(version, LIVE_MS);
  useEffect(() => {
    if (!path) return;
    const number = (sent.current += 1);
    /** @param {any} answer @param {string} error */
    const show = (answer, error) => {
      if (number < shown.current) return;
      shown.current = number;
      setFound((before) => ({ url, answer: answer ?? (before.url === url ? before.answer : null), error }));
    };
    get(path, query).then((answer) => show(answer, ""), (fault) => show(null, fault.message));
  }, [url, now]);
  const isFound = found.url === url;
  if (isFound && found.answer) return [found.answer, null];
  return [null, isFound && found.error ? html`<p class="problem">${found.error}</p>` : path ? html`<p class="empty">loading</p>` : null];
}
