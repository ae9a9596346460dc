// @ts-check
/** The tools of the servers: their definitions, the tokens of each, and how often each was called. */
import { get } from "./api.js";
import { plural, size, visible } from "./format.js";
import { JsonTree } from "./json_tree.js";
import { html, useEffect, useState } from "./preact.js";

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./live.js").Live} props.live
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Tools({ summary, live, go }) {
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState("");
  useEffect(() => {
    get(`/api/recordings/${summary.recording.id}/tools`).then(setAnswer, (fault) => setError(fault.message));
  }, [summary.recording.id, live.version]);
  if (error) return html`<p class="problem">${error}</p>`;
  if (!answer) return html`<p class="empty">loading</p>`;
  if (!answer.tools.length) return html`<p class="empty">The server did not list tools in this recording.</p>`;
  return html`<div class="page">
    <p>${plural(answer.tools.length, "tool")}, about ${answer.tokens.toLocaleString("en")} tokens in the context of the model for their definitions (${answer.token_estimate}).</p>
    ${answer.tools.map(
      (/** @type {any} */ tool) => html`<details class="tool">
        <summary><strong>${visible(tool.name)}</strong>
          <span class="count"> ${tool.listed ? `${size(tool.size)}, about ${tool.tokens.toLocaleString("en")} tokens` : "called, but not listed"}, ${tool.calls ? plural(tool.calls, "call") : "never called"}</span>
        </summary>
        ${tool.calls ? html`<button type="button" class="link" onClick=${() => go({ view: "calls", filter: `tool:${tool.name}`, call: 0 })}>its calls</button>` : null}
        ${tool.definition ? html`<div class="json"><${JsonTree} value=${tool.definition} /></div>` : null}
      </details>`,
    )}
  </div>`;
}
