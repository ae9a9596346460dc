// @ts-check
/** Two panes side by side, with a bar between them that the mouse and the keyboard move. */
import { html, useRef } from "./preact.js";
import { useRemembered } from "./remembered.js";

const LEAST = 15;
const MOST = 85;
const STEP = 5;

/** @param {number} part in percent */
function within(part) {
  return Math.round(Math.min(MOST, Math.max(LEAST, part)));
}

/**
 * @param {{left: any, right: any, name: string, label: string, initial: number, kind?: string}} props
 * `right` is null if the left pane is alone. `name` is under which the browser keeps the place of the bar, `label` says
 * what it moves, `initial` is the width of the left pane in percent, and `kind` are the classes of both together
 */
export function Panes({ left, right, name, label, initial, kind = "panes" }) {
  const [kept, keep] = useRemembered(name, String(initial));
  const part = within(Number(kept) || initial);
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  /** @param {PointerEvent} event */
  const onPointerDown = (event) => {
    event.preventDefault();
    const bar = /** @type {HTMLElement} */ (event.currentTarget);
    bar.focus();
    bar.setPointerCapture(event.pointerId);
  };
  /** @param {PointerEvent} event */
  const onPointerMove = (event) => {
    const bar = /** @type {HTMLElement} */ (event.currentTarget);
    const place = element.current?.getBoundingClientRect();
    if (place && bar.hasPointerCapture(event.pointerId)) keep(String(within(((event.clientX - place.left) / place.width) * 100)));
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    /** @type {Record<string, number>} */
    const places = { ArrowLeft: part - STEP, ArrowRight: part + STEP, Home: LEAST, End: MOST };
    if (!(event.key in places) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    keep(String(within(places[event.key])));
  };
  return html`<div class=${kind} ref=${element} style=${{ "--left": `${part}fr`, "--right": `${100 - part}fr` }}>
    ${left}
    ${right === null ? null : html`<div class="divider" role="separator" tabindex="0" aria-orientation="vertical" aria-label=${label} aria-valuenow=${part} aria-valuemin=${LEAST} aria-valuemax=${MOST}
      onPointerDown=${onPointerDown} onPointerMove=${onPointerMove} onDblClick=${() => keep(String(initial))} onKeyDown=${onKeyDown}></div>`}
    ${right}
  </div>`;
}
