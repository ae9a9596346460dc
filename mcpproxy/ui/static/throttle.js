// @ts-check
/** What changes often, seen less often. */
import { useEffect, useRef, useState } from "./preact.js";

/**
 * Return a value, at most one new one in `ms` milliseconds. The last one is always returned in the end.
 *
 * @template T
 * @param {T} value
 * @param {number} ms
 * @returns {T}
 */
export function useThrottled(value, ms) {
  const [shown, setShown] = useState(value);
  const changed = useRef(-Infinity);
  useEffect(() => {
    if (value === shown) return undefined;
    const show = () => {
      changed.current = performance.now();
      setShown(value);
    };
    const timer = setTimeout(show, Math.max(0, changed.current + ms - performance.now()));
    return () => clearTimeout(timer);
  }, [value, shown, ms]);
  return shown;
}

/**
 * Draw a component again every `ms` milliseconds while `isOn`: what it shows of a running time grows.
 *
 * @param {boolean} isOn
 * @param {number} ms
 * @returns {number} how often it was drawn again
 */
export function useTicks(isOn, ms) {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setCount((before) => before + 1), ms);
    return () => clearInterval(timer);
  }, [isOn, ms]);
  return count;
}
