// @ts-check
/** Buttons that put text into the clipboard, and bytes into a file. */
import { request } from "./api.js";
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

/** @param {{words: string, name: string, path: string}} props */
export function SaveButton({ words, name, path }) {
  const [problem, setProblem] = useState("");
  const save = async () => {
    try {
      const answer = await request(path);
      if (!answer.ok) throw new Error(await answer.text());
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      setProblem("");
    } catch (error) {
      setProblem(`not saved: ${/** @type {Error} */ (error).message}`);
    }
  };
  return html`<button type="button" class="link" onClick=${save}>${words}</button><span class="problem" role="status">${problem}</span>`;
}
