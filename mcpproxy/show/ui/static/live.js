// @ts-check
/** What changes in a recording while it runs, as the server of the page reports it. */
import { get, subscribe } from "./api.js";
import { useEffect, useRef, useState } from "./preact.js";

/**
 * @typedef {object} Live
 * @property {number} version counts the changes
 * @property {number} rows how many rows there are
 * @property {number} first the first row that is new or has changed; 0 if none has
 * @property {boolean} running
 * @property {boolean} paused
 * @property {() => number} now milliseconds since the start of the recording
 */

/**
 * @param {import("./types.js").Summary} summary
 * @param {boolean} paused whether changes are held back
 * @returns {Live}
 */
export function useLive(summary, paused) {
  const { id } = summary.recording;
  const started = useRef(0);
  const [state, setState] = useState({ version: 0, rows: summary.rows, first: 0, running: summary.running });
  const held = useRef(/** @type {typeof state | null} */ (null));
  const isPaused = useRef(paused);
  isPaused.current = paused;
  started.current ||= performance.now() - (Date.now() - summary.recording.started_ms);
  useEffect(() => {
    if (!summary.running) return undefined;
    const end = subscribe(`/api/recordings/${id}/live`, {}, {
      /** @param {{rows: number, first: number, running: boolean}} change */
      rows(change) {
        setState((before) => {
          const base = held.current ?? before;
          const first = base !== before && base.first ? Math.min(base.first, change.first || base.first) : change.first;
          const next = { version: base.version + 1, rows: change.rows, first, running: change.running };
          if (isPaused.current && change.running) {
            held.current = next;
            return before;
          }
          held.current = null;
          return next;
        });
        if (!change.running) end();
      },
    });
    return end;
  }, [id]);
  useEffect(() => {
    if (!paused && held.current) {
      setState(held.current);
      held.current = null;
    }
  }, [paused]);
  return { ...state, paused, now: () => performance.now() - started.current };
}

const SUMMARY_MS = 1500;

/**
 * Return the summary of a recording as it is now. It is requested again after changes, but at most once in
 * `SUMMARY_MS`, because the server reads all rows to answer.
 *
 * @param {import("./types.js").Summary} summary
 * @param {Live} live
 * @returns {import("./types.js").Summary}
 */
export function useCurrentSummary(summary, live) {
  const [current, setCurrent] = useState(summary);
  const answered = useRef(0);
  const latest = useRef(0);
  latest.current = live.version;
  const isWaiting = useRef(false);
  useEffect(() => {
    const ask = () => {
      if (isWaiting.current || answered.current === latest.current) return;
      isWaiting.current = true;
      setTimeout(async () => {
        const version = latest.current;
        // If the server does not answer, the counts stay as they are.
        const next = await get(`/api/recordings/${summary.recording.id}`).catch(() => null);
        if (next) setCurrent(next);
        answered.current = version;
        isWaiting.current = false;
        ask();
      }, SUMMARY_MS);
    };
    ask();
  }, [live.version]);
  return current;
}
