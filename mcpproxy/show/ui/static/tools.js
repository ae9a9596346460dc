// @ts-check
/** The tools of each server: schema, cost, use, and how each tool differs from its pin, the approved definition. */
import { useAnswer } from "./answer.js";
import { plural, quoted, size, visible } from "./format.js";
import { JsonTree } from "./json_tree.js";
import { html } from "./preact.js";

/** @type {Record<string, [string, string, string]>} state -> symbol, words, class */
const DRIFT = {
  same: ["✓", "as pinned", "good"],
  changed: ["▲", "changed since it was pinned", "bad"],
  new: ["+", "not pinned", "warn"],
};

/** @param {{drift: {state: string, lines: string[]}}} props */
function DriftMark({ drift }) {
  const [symbol, words, kind] = DRIFT[drift.state];
  return html` <span class=${kind}><span aria-hidden="true">${symbol}</span> ${words}</span>`;
}

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./live.js").Live} props.live
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Tools({ summary, live, go }) {
  const [answer, instead] = useAnswer(`/api/recordings/${summary.recording.id}/tools`, {}, live.version);
  if (!answer) return instead;
  if (!answer.tools.length) return html`<p class="empty">The server did not list tools in this recording.</p>`;
  const listed = answer.tools.filter((/** @type {any} */ tool) => tool.listed).length;
  const called = answer.tools.length - listed;
  return html`<div class="page">
    <p>${plural(listed, "tool")}${called ? ` and ${called.toLocaleString("en")} called, but not listed` : ""}, about ${answer.tokens.toLocaleString("en")} tokens in the context of the model for their definitions (${answer.token_estimate}).</p>
    ${answer.gone.map((/** @type {any} */ one) => html`<p class="problem">✗ ${visible(one.name)} is pinned, and ${visible(one.server || "the server")} does not list it any more.</p>`)}
    ${answer.tools.map(
      (/** @type {any} */ tool) => html`<details class="tool" open=${tool.drift?.state === "changed"}>
        <summary><strong>${visible(tool.name)}</strong>
          <span class="count"> ${tool.listed ? `${size(tool.size)}, about ${tool.tokens.toLocaleString("en")} tokens` : "called, but not listed"}, ${tool.calls ? plural(tool.calls, "call") : "never called"}</span>
          ${tool.drift ? html`<${DriftMark} drift=${tool.drift} />` : null}
        </summary>
        ${tool.drift?.lines.length ? html`<ul class="plain">${tool.drift.lines.map((/** @type {string} */ line) => html`<li>${visible(line)}</li>`)}</ul>` : null}
        ${tool.calls ? html`<button type="button" class="link" onClick=${() => go({ view: "calls", filter: `tool:${quoted(tool.name)}`, call: 0 })}>its calls</button>` : null}
        ${tool.definition ? html`<${JsonTree} value=${tool.definition} label="the definition" />` : null}
      </details>`,
    )}
  </div>`;
}
