// @ts-check
/**
 * The address of the page says what the page shows, so that a link or the browser's history leads back to it:
 * `/?recording=ID&view=calls&filter=...#call=57`. The address of an exported page, which is a file, has everything
 * in its fragment: `#view=calls&filter=...&call=57`.
 */
import { isExported } from "./api.js";
import { useEffect, useState } from "./preact.js";

/**
 * @typedef {object} Place
 * @property {string} recording the id of the recording, empty if none is chosen
 * @property {string} view calls, timeline, findings, tools, stats, compare, prompt, works-in or search
 * @property {string} filter
 * @property {string} order what the calls are sorted by, after a `-` the largest first; empty for the order of the recording
 * @property {string} other the id of the recording to compare with
 * @property {number} call the selected row, or 0
 * @property {string} find what is searched for in all recordings
 */

/** @returns {Place} */
function read() {
  const query = new URLSearchParams(isExported ? location.hash.slice(1) : location.search);
  const call = /(?:^#|&)call=(\d+)$/.exec(location.hash);
  return {
    recording: query.get("recording") ?? (isExported ? "exported" : ""),
    view: query.get("view") ?? "calls",
    filter: query.get("filter") ?? "",
    order: query.get("order") ?? "",
    other: query.get("other") ?? "",
    call: call ? Number(call[1]) : 0,
    find: query.get("find") ?? "",
  };
}

/** @param {Place} place */
export function href(place) {
  const query = new URLSearchParams();
  if (place.recording) query.set("recording", place.recording);
  if (place.view !== "calls") query.set("view", place.view);
  if (place.filter) query.set("filter", place.filter);
  if (place.order) query.set("order", place.order);
  if (place.other) query.set("other", place.other);
  if (place.find) query.set("find", place.find);
  if (isExported) {
    query.delete("recording");
    if (place.call) query.set("call", String(place.call));
    return `#${query}`;
  }
  const text = query.toString();
  return `/${text ? `?${text}` : ""}${place.call ? `#call=${place.call}` : ""}`;
}

/**
 * Return the place that the address names, and a function that changes it. A change of only the selected call, or
 * one that is `small`, makes no entry in the browser's history.
 *
 * @returns {[Place, (change: Partial<Place>, small?: boolean) => void]}
 */
export function usePlace() {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const update = () => setPlace(read());
    addEventListener("popstate", update);
    addEventListener("hashchange", update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener("hashchange", update);
    };
  }, []);
  /** @param {Partial<Place>} change @param {boolean} [small] */
  const go = (change, small = false) => {
    const now = read();
    const next = { ...now, ...change };
    const isSelection = href({ ...now, call: 0 }) === href({ ...next, call: 0 });
    history[isSelection || small ? "replaceState" : "pushState"](null, "", href(next));
    setPlace(next);
  };
  return [place, go];
}
