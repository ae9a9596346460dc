// @ts-check
/** A JSON value as a tree whose branches open and close. Numbers are shown as they were written. */
import { visible } from "./format.js";
import { html, useState } from "./preact.js";

const LONG = 2000;
const MANY = 100;

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

/**
 * @param {{value: any, name?: string, depth?: number, pointer?: string, marked?: string[]}} props
 * `marked` are the JSON Pointers of the members to highlight
 */
export function JsonTree({ value, name = "", depth = 0, pointer = "", marked = [] }) {
  const label = name === "" ? null : html`<span class="j-name">${visible(name)}</span>: `;
  const mark = marked.includes(pointer) ? " pointed" : "";
  if (value !== null && typeof value === "object" && !(value instanceof ExactNumber)) {
    return html`<${Branch} value=${value} label=${label} depth=${depth} pointer=${pointer} marked=${marked} mark=${mark} />`;
  }
  return html`<div class=${`j-leaf${mark}`}>${label}<${Leaf} value=${value} /></div>`;
}

/** @param {{value: any}} props */
function Leaf({ value }) {
  const [length, setLength] = useState(LONG);
  if (typeof value === "string") {
    const rest = value.length - length;
    return html`<span class="j-string">"${visible(value.slice(0, length))}${rest > 0 ? "" : '"'}</span>${rest > 0
      ? html` <button type="button" class="more" onClick=${() => setLength(length * 10)}>${rest.toLocaleString("en")} more characters</button>`
      : null}`;
  }
  if (value instanceof ExactNumber) return html`<span class="j-number">${value.source}</span>`;
  return html`<span class=${value === null || typeof value === "boolean" ? "j-word" : "j-number"}>${String(value)}</span>`;
}

/** @param {{value: any, label: any, depth: number, pointer: string, marked: string[], mark: string}} props */
function Branch({ value, label, depth, pointer, marked, mark }) {
  const entries = Array.isArray(value) ? value.map((member, index) => /** @type {[string, any]} */ ([String(index), member])) : Object.entries(value);
  const leads = marked.some((other) => other.startsWith(`${pointer}/`));
  const [isOpen, setOpen] = useState(leads || (depth < 4 && entries.length <= MANY));
  const [count, setCount] = useState(MANY);
  const [left, right] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return html`<div class=${`j-leaf${mark}`}>${label}${left}${right}</div>`;
  const words = `${entries.length} ${Array.isArray(value) ? "item" : "member"}${entries.length === 1 ? "" : "s"}`;
  return html`<div class=${`j-branch${mark}`}>
    <button type="button" class="j-toggle" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> ${label}${left}${isOpen ? null : html` <span class="j-count">${words}</span> ${right}`}
    </button>
    ${isOpen
      ? html`<div class="j-members">
            ${entries.slice(0, count).map(
              ([key, member]) =>
                html`<${JsonTree} key=${key} name=${key} value=${member} depth=${depth + 1} marked=${marked} pointer=${`${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`} />`,
            )}
            ${entries.length > count ? html`<button type="button" class="more" onClick=${() => setCount(count * 10)}>${(entries.length - count).toLocaleString("en")} more</button>` : null}
          </div>
          <span>${right}</span>`
      : null}
  </div>`;
}
