// @ts-check
/** What an answer contains, shown as what it is: text, JSON, Markdown, images, audio, files, and values as trees. */
import { CopyButton, CopyMark } from "./copy.js";
import { LongText } from "./find.js";
import { size, visible } from "./format.js";
import { JsonTree, isBranch, parse, pasted } from "./json_tree.js";
import { Markdown, isMarkdown } from "./markdown.js";
import { Media } from "./media.js";
import { html, useMemo, useState } from "./preact.js";

/** How many blocks of content are shown at first. */
const FEW = 50;

/**
 * @typedef {object} Block
 * @property {any} value the block as it was sent
 * @property {string} role who says it, in a prompt or in sampling; empty elsewhere
 */

/**
 * Return the blocks of content in a result, and its other members.
 *
 * @param {any} result
 * @returns {{blocks: Block[], rest: Record<string, any>}} no blocks if it has no content that is known
 */
export function contentOf(result) {
  /** @param {any} value @returns {any[]} */
  const listed = (value) => (Array.isArray(value) ? value : [value]);
  /** @param {any} value */
  const isBlock = (value) => isBranch(value) && !Array.isArray(value) && (typeof value.type === "string" || typeof value.uri === "string");
  if (!isBranch(result) || Array.isArray(result)) return { blocks: [], rest: {} };
  const { content, contents, messages, ...rest } = result;
  if (isBranch(content) && listed(content).every(isBlock)) {
    const { role, ...others } = rest;
    const isSaid = typeof role === "string";
    return { blocks: listed(content).map((value) => ({ value, role: isSaid ? role : "" })), rest: isSaid ? others : rest };
  }
  if (Array.isArray(contents) && contents.every(isBlock)) return { blocks: contents.map((value) => ({ value, role: "" })), rest };
  if (Array.isArray(messages) && messages.length && messages.every((one) => isBranch(one) && isBranch(one.content) && listed(one.content).every(isBlock))) {
    return { blocks: messages.flatMap((one) => listed(one.content).map((value) => ({ value, role: String(one.role ?? "") }))), rest };
  }
  return { blocks: [], rest: result };
}

/** Return the texts of a result, to paste; of a result without texts, the JSON. @param {any} result */
export function textOf(result) {
  const texts = contentOf(result).blocks.map(({ value }) => value.text ?? value.resource?.text).filter((text) => typeof text === "string");
  return texts.length ? texts.join("\n") : pasted(result);
}

/**
 * A result: its blocks of content, then its other members.
 *
 * @param {{result: any, name: string, marked: string[]}} props
 * `name` begins the names of saved files; `marked` are pointers into the result
 */
export function Content({ result, name, marked }) {
  const { blocks, rest } = useMemo(() => contentOf(result), [result]);
  const [count, setCount] = useState(FEW);
  if (!blocks.length) return html`<${JsonTree} value=${result} marked=${marked} label="the result" />`;
  const { structuredContent, ...others } = rest;
  const texts = blocks.map(({ value }) => value.text);
  // Servers repeat structured content as text, for clients that know only text.
  const isRepeated = structuredContent !== undefined && texts.length === 1 && typeof texts[0] === "string" && isSame(texts[0], structuredContent);
  return html`
    ${isRepeated ? null : blocks.slice(0, count).map(({ value, role }, index) => html`<div class="block" key=${index}>${role ? html`<h4>${visible(role)}</h4>` : null}<${OneBlock} block=${value} name=${`${name}-${index + 1}`} /></div>`)}
    ${blocks.length > count ? html`<button type="button" class="more" onClick=${() => setCount(count * 10)}>${(blocks.length - count).toLocaleString("en")} more</button>` : null}
    ${structuredContent === undefined ? null : html`<div class="block"><h4>structured content ${isRepeated ? html`<span class="count">and the same as text</span>` : null}</h4><${JsonTree} value=${structuredContent} marked=${below(marked, "/structuredContent")} label="the structured content" /></div>`}
    ${isToldAbove(others) ? null : html`<div class="block"><${JsonTree} value=${others} marked=${marked} label="the other members" /></div>`}`;
}

/** Whether the mark above a result says what its other members say. @param {Record<string, any>} members */
function isToldAbove(members) {
  return Object.entries(members).every(([name, value]) => name === "isError" && typeof value === "boolean");
}

/** Return the pointers that lead into a member, as pointers into its value. @param {string[]} pointers @param {string} member */
export function below(pointers, member) {
  return pointers.filter((one) => one === member || one.startsWith(`${member}/`)).map((one) => one.slice(member.length));
}

/** Whether a text is a value as JSON. @param {string} text @param {any} value */
function isSame(text, value) {
  const parsed = parse(text);
  return parsed !== null && JSON.stringify(parsed.value) === JSON.stringify(value);
}

/** @param {{block: any, name: string}} props */
function OneBlock({ block, name }) {
  const { type, text, data, mimeType, resource } = block;
  const kind = typeof mimeType === "string" ? mimeType : "";
  if (type === "resource" && isBranch(resource)) return html`<${OneBlock} block=${{ ...resource, type: "" }} name=${name} />`;
  const uri = typeof block.uri === "string" ? html`<p class="count">${visible(block.uri)}${kind ? `, ${visible(kind)}` : ""}</p>` : null;
  if (typeof text === "string" && (type === "text" || !type)) return html`${uri}<${TextBlock} text=${text} mimeType=${kind} />`;
  if (typeof data === "string" && (type === "image" || type === "audio")) return html`<${Media} base64=${data} mimeType=${kind} name=${name} />`;
  if (typeof block.blob === "string") return html`${uri}<${Media} base64=${block.blob} mimeType=${kind} name=${name} />`;
  return html`<${JsonTree} value=${block} label="the content" />`;
}

/** A text as a tree if it is JSON, formatted if it is Markdown; and as it was sent. @param {{text: string, mimeType: string}} props */
function TextBlock({ text, mimeType }) {
  const json = useMemo(() => parsedBranch(text), [text]);
  const isFormatted = useMemo(() => !json && isMarkdown(text, mimeType), [text]);
  const [isPlain, setPlain] = useState(false);
  const words = json ? "JSON" : isFormatted ? "Markdown" : "text";
  return html`<div class="as">
      <span class="count">${words}, ${size(text.length)}</span>
      ${json || isFormatted ? html`<button type="button" class="link" aria-pressed=${isPlain} onClick=${() => setPlain(!isPlain)}>as text</button>` : null}
      <${CopyMark} what="the text" text=${() => text} />
    </div>
    ${isPlain || !(json || isFormatted) ? html`<${LongText} text=${text} label="the text" />` : json ? html`<${JsonTree} value=${json.value} label="the JSON" />` : html`<${Markdown} text=${text} />`}`;
}

/** Return the object or the array that a text is; null if it is neither. @param {string} text */
function parsedBranch(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  const parsed = parse(text);
  return parsed && isBranch(parsed.value) ? parsed : null;
}

/** The arguments of a call, or its params. @param {{value: any, words: string, marked: string[]}} props */
export function Arguments({ value, words, marked }) {
  if (value === undefined || (isBranch(value) && !Object.keys(value).length)) return html`<p class="count">no ${words}</p>`;
  return html`<${JsonTree} value=${value} marked=${marked} label=${`the ${words}`} />`;
}

/** @param {{label: string, text: () => string}} props */
export function CopyPane({ label, text }) {
  return html`<${CopyButton} words="copy" label=${label} text=${text} />`;
}
