// @ts-check
/** Settings of the page that stay in the browser. A page from a file may have no storage. */
import { useState } from "./preact.js";

/**
 * @param {string} name
 * @param {string} initial the value if none was kept
 */
export function remembered(name, initial) {
  try {
    return localStorage.getItem(name) ?? initial;
  } catch {
    return initial;
  }
}

/** @param {string} name @param {string} value */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Without storage the value holds until the page is closed.
  }
}

/**
 * A state that the browser keeps.
 *
 * @param {string} name
 * @param {string} initial
 * @returns {[string, (value: string) => void]}
 */
export function useRemembered(name, initial) {
  const [value, setValue] = useState(() => remembered(name, initial));
  return [
    value,
    (next) => {
      remember(name, next);
      setValue(next);
    },
  ];
}
