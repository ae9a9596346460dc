// @ts-check
/** What does not move under the pointer. A click is a press and a release in one place: it is lost, or meant for another row, if rows move in between. */
import { useEffect, useRef, useState } from "./preact.js";

/** A release may never come, as from a menu of the system. */
const LONGEST_MS = 5000;

/**
 * Keep a component as it is drawn while a button of the pointer is down on it.
 *
 * @returns {{press: () => void, still: (node: any) => any}} `press` is called when the pointer goes down, and `still` with what would be drawn
 */
export function useStill() {
  const pressedAt = useRef(-Infinity);
  const drawn = useRef(/** @type {any} */ (null));
  const [, draw] = useState(0);
  const longest = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const release = () => {
    if (pressedAt.current === -Infinity) return;
    pressedAt.current = -Infinity;
    draw((count) => count + 1);
  };
  useEffect(() => {
    const later = () => setTimeout(release); // the click comes after the release
    window.addEventListener("pointerup", later);
    window.addEventListener("pointercancel", later);
    return () => {
      window.removeEventListener("pointerup", later);
      window.removeEventListener("pointercancel", later);
    };
  }, []);
  return {
    press: () => {
      pressedAt.current = performance.now();
      clearTimeout(longest.current); // that of an earlier press
      longest.current = setTimeout(release, LONGEST_MS);
    },
    still: (node) => {
      if (performance.now() - pressedAt.current > LONGEST_MS) drawn.current = node;
      return drawn.current;
    },
  };
}
