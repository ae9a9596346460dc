// @ts-check
/** A search in one value: its matches are marked, and the reader goes from one to the next. */
import { visible } from "./format.js";
import { html, useEffect, useMemo, useRef, useState } from "./preact.js";

/** The most matches that are counted and marked. */
export const MOST_HITS = 1000;

/**
 * @typedef {object} Hit One match.
 * @property {string} pointer the JSON Pointer of the member; empty in a text
 * @property {boolean} isName whether the name of the member matches, and not its value
 * @property {number} at the offset in the text
 *
 * @typedef {object} Found What is searched for.
 * @property {string} needle in small letters; empty if nothing is searched for
 * @property {Hit | undefined} current the match that the reader is at
 */

/** @type {Found} */
export const NO_SEARCH = { needle: "", current: undefined };

/** Return a text in small letters, in which every offset stays. @param {string} text */
function small(text) {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text;
}

/**
 * Return the offsets of a needle in a text.
 *
 * @param {string} text
 * @param {string} needle in small letters
 * @param {number} [most]
 */
export function offsets(text, needle, most = MOST_HITS) {
  const found = [];
  const searched = small(text);
  for (let at = searched.indexOf(needle); at >= 0 && found.length < most; at = searched.indexOf(needle, at + needle.length)) found.push(at);
  return found;
}

/**
 * Return what is searched for, and the box in which a reader types it.
 *
 * @param {string} label what is searched, in words
 * @param {unknown} value what is searched
 * @param {(needle: string) => Hit[]} find
 * @returns {{found: Found, box: any}}
 */
export function useFind(label, value, find) {
  const [text, setText] = useState("");
  const [step, setStep] = useState(0);
  const needle = small(text);
  const hits = useMemo(() => (needle ? find(needle) : []), [value, needle]);
  const at = hits.length ? ((step % hits.length) + hits.length) % hits.length : 0;
  /** @param {string} next */
  const search = (next) => {
    setText(next);
    setStep(0);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      setStep(at + (event.shiftKey ? -1 : 1));
    } else if (event.key === "Escape" && text) {
      event.stopPropagation();
      search("");
    }
  };
  const words = !needle ? "" : hits.length ? `${at + 1} of ${hits.length}${hits.length === MOST_HITS ? "+" : ""}` : "none";
  const box = html`<div class="find">
    <input type="search" aria-label=${`Find in ${label}`} placeholder="find" spellcheck=${false} autocomplete="off" value=${text} onKeyDown=${onKeyDown} onInput=${(/** @type {any} */ event) => search(event.target.value)} />
    ${needle
      ? html`<button type="button" aria-label="Previous match" disabled=${!hits.length} onClick=${() => setStep(at - 1)}>↑</button>
          <button type="button" aria-label="Next match" disabled=${!hits.length} onClick=${() => setStep(at + 1)}>↓</button>`
      : null}
    <span class="count" role="status">${words}</span>
  </div>`;
  return { found: { needle, current: hits[at] }, box };
}

/**
 * A recorded text with its matches marked.
 *
 * @param {{text: string, found: Found, at?: number}} props `at` is the offset of the current match in the text, -1 if it is elsewhere
 */
export function Marked({ text, found, at = -1 }) {
  if (!found.needle) return visible(text);
  const nodes = [];
  let end = 0;
  for (const offset of offsets(text, found.needle)) {
    const next = offset + found.needle.length;
    nodes.push(visible(text.slice(end, offset)), html`<${Match} text=${text.slice(offset, next)} isCurrent=${offset === at} />`);
    end = next;
  }
  nodes.push(visible(text.slice(end)));
  return nodes;
}

/** @param {{text: string, isCurrent: boolean}} props */
function Match({ text, isCurrent }) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (isCurrent) element.current?.scrollIntoView({ block: "center" });
  }, [isCurrent]);
  return html`<mark ref=${element} class=${isCurrent ? "current" : ""}>${visible(text)}</mark>`;
}

const FIRST = 20_000;

/** A long text, first its beginning. It can be searched. @param {{text: string, label: string}} props */
export function LongText({ text, label }) {
  const [shown, setShown] = useState(FIRST);
  const { found, box } = useFind(label, text, (needle) => offsets(text, needle).map((at) => ({ pointer: "", isName: false, at })));
  const at = found.current?.at ?? -1;
  const length = Math.max(shown, at + found.needle.length);
  return html`${text.length > 500 ? box : null}<pre tabindex="0" aria-label=${label}><${Marked} text=${text.slice(0, length)} found=${found} at=${at} /></pre>${text.length > length ? html`<button type="button" class="more" onClick=${() => setShown(length * 10)}>${(text.length - length).toLocaleString("en")} more characters</button>` : null}`;
}
