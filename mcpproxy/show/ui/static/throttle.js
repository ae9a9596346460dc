// @ts-check
/** What changes often, seen less often. */
import { useEffect, useRef, useState } from "./preact.js";

/** How long a text that is typed stays as it is until it is applied. */
const TYPED_MS = 300;

/**
 * A field whose text is applied while it is typed.
 *
 * @param {string} applied what is applied now, as the address has it
 * @param {(text: string, isTyping: boolean) => void} apply called with another text, without spaces around it
 */
export function useTyped(applied, apply) {
  const [text, setText] = useState(applied);
  const typing = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const own = useRef(applied);
  const stop = () => {
    clearTimeout(typing.current);
    typing.current = undefined;
  };
  useEffect(() => {
    // The own text comes back here, when the field may already have a longer one.
    if (applied !== own.current) {
      setText(applied);
      stop();
    }
    own.current = applied;
  }, [applied]);
  useEffect(() => stop, []);
  /** @param {string} now @param {boolean} isTyping */
  const take = (now, isTyping) => {
    stop();
    if (now.trim() === applied) return;
    own.current = now.trim();
    apply(own.current, isTyping);
  };
  return {
    text,
    clear: () => {
      stop();
      setText("");
    },
    submit: () => take(text, false),
    /** @param {any} event */
    onInput: (event) => {
      const now = event.target.value;
      setText(now);
      clearTimeout(typing.current);
      typing.current = setTimeout(() => take(now, true), TYPED_MS);
    },
    /** What comes next, such as a chosen row, is of what the whole text leaves. @param {any} event */
    onBlur: (event) => {
      if (typing.current) take(event.target.value, true);
    },
  };
}

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
