// @ts-check
/** The keys and the filter language. */
import { html, useEffect, useRef } from "./preact.js";

const KEYS = [
  ["j, ↓ / k, ↑", "next, previous call"],
  ["g, Home / G, End", "first, last call"],
  ["Enter", "to the detail of the call; again, the detail has the whole width"],
  ["Escape", "back: close the detail, leave the filter"],
  ["/", "to the filter"],
  ["a", "search all recordings"],
  ["1 … 8", "calls, timeline, findings, tools, stats, compare, prompt, works in"],
  ["[ / ]", "previous, next recording"],
  ["b", "to the messages that breakpoints hold; there j and k next and previous, s show, r resume, e edit, d drop, x error"],
  ["l", "the list of recordings, there or away"],
  ["f", "follow the last call of a running recording"],
  ["p", "pause: hold new rows back"],
  ["t", "dark, light, as the system has it"],
  ["?", "this help"],
];
const TERMS = [
  ["tool:search*", "calls of tools whose name begins with “search”"],
  ["method:tools/*", "by the method"],
  ["status:error", "failed; or ok, tool-error, rpc-error, unanswered, cancelled, refused …"],
  ["latency:>2s", "slower than two seconds (waiting counts)"],
  ["rule:PROTO-*", "with a finding of such a rule"],
  ["from:server", "sent by the server"],
  ['"text"', "the recorded bytes contain it"],
  ["-status:ok", "not that"],
];

/** @param {{onClose: () => void}} props */
export function Help({ onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  return html`<dialog ref=${dialog} aria-labelledby="help-title" onClose=${onClose}>
    <h2 id="help-title">Keys and filters</h2>
    <div class="help">
      <dl>${KEYS.map(([keys, words]) => html`<dt><kbd>${keys}</kbd></dt><dd>${words}</dd>`)}</dl>
      <dl>${TERMS.map(([term, words]) => html`<dt><code>${term}</code></dt><dd>${words}</dd>`)}</dl>
    </div>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}
