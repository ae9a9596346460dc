// @ts-check
/** Buttons that put text into the clipboard. */
import { html, useState } from "./preact.js";

/** @param {{words: string, text: () => string | Promise<string>}} props */
export function CopyButton({ words, text }) {
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
  return html`<button type="button" onClick=${copy}>${words}</button><span class="hidden" role="status">${state}</span>${state ? html`<span aria-hidden="true" class="count">${state}</span>` : null}`;
}
