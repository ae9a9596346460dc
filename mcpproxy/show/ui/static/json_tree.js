// @ts-check
/** A JSON value as a tree whose branches open and close. Numbers are shown as they were written. */
import { CopyMark } from "./copy.js";
import { Marked, MOST_HITS, offsets, useFind } from "./find.js";
import { size, visible } from "./format.js";
import { base64Of, bytesIn } from "./media.js";
import { html, useMemo, useState } from "./preact.js";

const LONG = 2000;
const MANY = 100;
/** From how many members on a value can be searched. */
const SEARCHED = 12;
/** A value with fewer members is shown open for four levels, another one for two. */
const SMALL = 150;
/** How many members are shown before and after a match that is far down. */
const AROUND = 5;

/** A number that JavaScript would round or write in another way. */
export class ExactNumber {
  /** @param {string} source */
  constructor(source) {
    this.source = source;
  }
  toJSON() {
    return /** @type {any} */ (JSON).rawJSON(this.source);
  }
}

/**
 * @param {string} text
 * @returns {{value: any} | null} null if it is not JSON
 */
export function parse(text) {
  try {
    // Browsers since 2024 pass a third argument, with the source text of a number. Older ones round large numbers.
    const value = JSON.parse(text, (/** @type {any[]} */ ...[, member, context]) =>
      typeof member === "number" && context?.source && String(member) !== context.source ? new ExactNumber(context.source) : member,
    );
    return { value };
  } catch {
    return null;
  }
}

/** Whether a value is an object or an array. @param {any} value */
export function isBranch(value) {
  return value !== null && typeof value === "object" && !(value instanceof ExactNumber);
}

/** Return a value as text to paste: a string as it is, anything else as JSON. @param {any} value */
export function pasted(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** Return the text that stands for a leaf. @param {any} value */
function leafText(value) {
  return value instanceof ExactNumber ? value.source : String(value);
}

/** Return the pointer of a member. @param {string} pointer @param {string} name */
function below(pointer, name) {
  return `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/**
 * Return the places in a value where a text occurs, in order.
 *
 * @param {any} root
 * @param {string} needle in small letters
 */
function hitsIn(root, needle) {
  /** @type {import("./find.js").Hit[]} */
  const hits = [];
  /** @param {string} text @param {string} pointer @param {boolean} isName */
  const add = (text, pointer, isName) => {
    for (const at of offsets(text, needle, MOST_HITS - hits.length)) hits.push({ pointer, isName, at });
  };
  /** @param {any} value @param {string} pointer */
  const visit = (value, pointer) => {
    if (!isBranch(value)) return add(leafText(value), pointer, false);
    for (const [name, member] of Object.entries(value)) {
      if (hits.length >= MOST_HITS) return;
      if (!Array.isArray(value)) add(name, below(pointer, name), true);
      visit(member, below(pointer, name));
    }
  };
  visit(root, "");
  return hits;
}

/** Whether a value has at least so many members, those of members included. @param {any} value @param {number} count */
function hasMembers(value, count) {
  let left = count;
  /** @param {any} one */
  const visit = (one) => {
    if (!isBranch(one)) return;
    for (const member of Object.values(one)) {
      left -= 1;
      if (left <= 0) return;
      visit(member);
    }
  };
  visit(value);
  return left <= 0;
}

/**
 * @param {{value: any, marked?: string[], label?: string}} props
 * `marked` are the JSON Pointers of the members to highlight; `label` says what the value is
 */
export function JsonTree({ value, marked = [], label = "the value" }) {
  const { found, box } = useFind(label, value, (needle) => hitsIn(value, needle));
  const isSearched = useMemo(() => hasMembers(value, SEARCHED), [value]);
  const levels = useMemo(() => (hasMembers(value, SMALL) ? 2 : 4), [value]);
  return html`<div class="json">${isSearched ? box : null}<${Node} value=${value} name="" depth=${0} pointer="" shared=${{ marked, found, levels }} mimeType="" /></div>`;
}

/** Return the first members of a value that are no branches, on one line; empty if it begins with another one. @param {any} value */
function glance(value) {
  const parts = [];
  let length = 0;
  const entries = Object.entries(value);
  for (const [name, member] of entries) {
    if (isBranch(member) || length > 60) break;
    const text = typeof member === "string" ? JSON.stringify(member.length > 30 ? `${member.slice(0, 30)}…` : member) : leafText(member);
    parts.push(Array.isArray(value) ? text : `${name}: ${text}`);
    length += parts[parts.length - 1].length;
  }
  const more = entries.length - parts.length;
  return parts.length && more ? `${parts.join(", ")}, ${more.toLocaleString("en")} more` : parts.join(", ");
}

/** @typedef {{marked: string[], found: import("./find.js").Found, levels: number}} Shared */
/**
 * @typedef {object} NodeProps
 * @property {any} value
 * @property {string} name
 * @property {number} depth
 * @property {string} pointer
 * @property {Shared} shared
 * @property {string} mimeType what the object that has this member says about its data
 */

/** @param {NodeProps} props */
function Node({ value, name, depth, pointer, shared, mimeType }) {
  const { marked, found } = shared;
  const at = found.current?.pointer === pointer ? found.current : undefined;
  const label = name === "" ? null : html`<span class="j-name"><${Marked} text=${name} found=${found} at=${at?.isName ? at.at : -1} /></span>: `;
  const mark = marked.includes(pointer) ? " pointed" : "";
  const copy = html`<${CopyMark} what=${name || "the value"} text=${() => pasted(value)} />`;
  if (isBranch(value)) return html`<${Branch} value=${value} label=${label} depth=${depth} pointer=${pointer} shared=${shared} mark=${mark} copy=${copy} />`;
  return html`<div class=${`j-leaf${mark}`}>${label}<${Leaf} value=${value} found=${found} at=${at && !at.isName ? at.at : -1} mimeType=${mimeType} />${copy}</div>`;
}

/** @param {{value: any, found: import("./find.js").Found, at: number, mimeType: string}} props */
function Leaf({ value, found, at, mimeType }) {
  const [shown, setShown] = useState(LONG);
  const [isUnfolded, setUnfolded] = useState(false);
  if (typeof value === "string") {
    const data = base64Of(value, mimeType);
    if (data && !isUnfolded && at < 0) {
      return html`<button type="button" class="j-toggle j-string" aria-expanded="false" onClick=${() => setUnfolded(true)}><span aria-hidden="true">▸</span> ${visible(data.mimeType || "base64")}, ${size(bytesIn(data.base64))}</button>`;
    }
    const length = Math.max(shown, at + found.needle.length);
    const rest = value.length - length;
    return html`<span class="j-string">"<${Marked} text=${value.slice(0, length)} found=${found} at=${at} />${rest > 0 ? "" : '"'}</span>${rest > 0
      ? html` <button type="button" class="more" onClick=${() => setShown(length * 10)}>${rest.toLocaleString("en")} more characters</button>`
      : null}`;
  }
  const kind = value === null || typeof value === "boolean" ? "j-word" : "j-number";
  return html`<span class=${kind}><${Marked} text=${leafText(value)} found=${found} at=${at} /></span>`;
}

/** @param {{value: any, label: any, depth: number, pointer: string, shared: Shared, mark: string, copy: any}} props */
function Branch({ value, label, depth, pointer, shared, mark, copy }) {
  const entries = Array.isArray(value) ? value.map((member, index) => /** @type {[string, any]} */ ([String(index), member])) : Object.entries(value);
  const leads = shared.marked.some((other) => other.startsWith(`${pointer}/`));
  const [isOpened, setOpen] = useState(leads || (depth < shared.levels && (depth < 2 || entries.length <= MANY)));
  const [count, setCount] = useState(MANY);
  const [left, right] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return html`<div class=${`j-leaf${mark}`}>${label}${left}${right}${copy}</div>`;
  const current = shared.found.current?.pointer ?? "";
  const isOpen = isOpened || current.startsWith(`${pointer}/`);
  // The match may be among the members that are not shown yet. Then those around it are.
  const led = isOpen && current ? entries.findIndex(([key]) => current === below(pointer, key) || current.startsWith(`${below(pointer, key)}/`)) : -1;
  const from = led < count ? count : Math.max(count, led - AROUND);
  const shown = [...entries.slice(0, count), ...(led < count ? [] : entries.slice(from, led + AROUND))];
  const words = `${entries.length} ${Array.isArray(value) ? "item" : "member"}${entries.length === 1 ? "" : "s"}`;
  const mimeType = typeof value.mimeType === "string" ? value.mimeType : "";
  return html`<div class=${`j-branch${mark}`}>
    <div class="j-row"><button type="button" class="j-toggle" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> ${label}${left}${isOpen ? null : html` <span class="j-count">${visible(glance(value) || words)}</span> ${right}`}
    </button>${copy}</div>
    ${isOpen
      ? html`<div class="j-members">
            ${shown.flatMap(([key, member], index) => [
              index === count && from > count ? html`<div key="between" class="j-leaf j-count">… ${(from - count).toLocaleString("en")} between</div>` : null,
              html`<${Node} key=${`/${key}`} name=${key} value=${member} depth=${depth + 1} shared=${shared} mimeType=${key === "data" || key === "blob" ? mimeType : ""} pointer=${below(pointer, key)} />`,
            ])}
            ${entries.length > count ? html`<button type="button" class="more" onClick=${() => setCount(count * 10)}>${(entries.length - count).toLocaleString("en")} more</button>` : null}
          </div>
          <span>${right}</span>`
      : null}
  </div>`;
}
