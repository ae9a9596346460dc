// @ts-check
/** Buttons that put text into the clipboard, and bytes into a file. */
import { request } from "./api.js";
import { visible } from "./format.js";
import { html, useState } from "./preact.js";

/**
 * Return what the last copy came to, and a function that copies.
 *
 * @param {() => string | Promise<string>} text
 * @returns {[string, () => Promise<void>]}
 */
function useCopy(text) {
  const [state, setState] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await text());
      setState("copied");
    } catch (error) {
      setState(`not copied: ${/** @type {Error} */ (error).message}`);
    }
    setTimeout(() => setState(""), 2000);
  };
  return [state, copy];
}

/** @param {{words: string, text: () => string | Promise<string>, label?: string}} props `label` is the name of the button if its words are short */
export function CopyButton({ words, text, label }) {
  const [state, copy] = useCopy(text);
  return html`<button type="button" aria-label=${label} onClick=${copy}>${words}</button><span class="hidden" role="status">${state}</span>${state ? html`<span aria-hidden="true" class="count">${state}</span>` : null}`;
}

/** A small button beside a node of a tree, which is seen when the pointer or the focus is there. @param {{what: string, text: () => string}} props */
export function CopyMark({ what, text }) {
  const [state, copy] = useCopy(text);
  return html`<button type="button" class="j-copy" title="copy" aria-label=${`Copy ${what}`} onClick=${copy}></button>${state ? html`<span role="status" class="count">${visible(state)}</span>` : null}`;
}

/** @param {{words: string, name: string, path: string}} props */
export function SaveButton({ words, name, path }) {
  const [problem, setProblem] = useState("");
  const save = async () => {
    try {
      const answer = await request(path);
      if (!answer.ok) throw new Error(await answer.text());
      saveBlob(await answer.blob(), name);
      setProblem("");
    } catch (error) {
      setProblem(`not saved: ${/** @type {Error} */ (error).message}`);
    }
  };
  return html`<button type="button" class="link" onClick=${save}>${words}</button><span class="problem" role="status">${problem}</span>`;
}

/** @param {Blob} blob @param {string} name of the file */
export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
