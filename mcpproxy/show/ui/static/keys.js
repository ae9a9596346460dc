// @ts-check
/** Which keys belong to the element that has the focus, and which to the page. */

/** @param {HTMLElement} element */
export function takesText(element) {
  return /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) || element.isContentEditable;
}

/**
 * Whether an element needs a key itself: to take text, to be pressed, or to scroll.
 *
 * @param {HTMLElement} element
 * @param {string} key
 */
export function needs(element, key) {
  if (takesText(element) || element.closest("dialog")) return true;
  if (key === "Enter") return element.closest("button, a, summary") !== null;
  return key.startsWith("Arrow") && element.closest(".detail, .held, .page, pre") !== null;
}
