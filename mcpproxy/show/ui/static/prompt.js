// @ts-check
/** What a model got of what a server said: each tool, call and result, with what its host cut, renamed or lost. */
import { href } from "./address.js";
import { useAnswer } from "./answer.js";
import { isExported } from "./api.js";
import { SEVERITY_MARKS, plural, visible } from "./format.js";
import { html } from "./preact.js";

/** The class of what became of a part: its colour. @type {Record<string, string>} */
const KINDS = { same: "good", missing: "bad", cut: "warn", unknown: "note" };

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./address.js").Place} props.place
 */
export function Prompt({ summary, place }) {
  const [seen, instead] = useAnswer(`/api/recordings/${summary.recording.id}/prompt`); // of a running session as it is now: all of both recordings is read
  if (!seen) return instead;
  if (seen.model === null) return html`<${NoModel} />`;
  const isModel = seen.recording === summary.recording.id;
  return html`<div class="page prompt">
    <p><strong>${seen.model || "a model"}</strong>${seen.dialect ? `, ${seen.dialect}` : ""}, ${plural(seen.requests, "request")} with tools${seen.tokens ? `; ${seen.tokens[0].toLocaleString("en")} tokens in the first answered one, ${seen.tokens[1].toLocaleString("en")} in the last` : ""}.
      ${isModel || isExported ? null : html` <a href=${href({ ...place, recording: seen.recording, view: "calls", filter: "", order: "", call: 0 })}>the recording of the model</a>`}</p>
    ${seen.unread ? html`<p class="warn">${seen.unread}</p>` : null}
    ${seen.refusals.map((/** @type {string[]} */ [refused, ...meant]) => html`<p class="problem">${refused}${meant.map((words) => html`<br />${words}`)}</p>`)}
    ${seen.servers.map((/** @type {any} */ server) => html`<${Server} server=${server} model=${seen.recording} place=${place} />`)}
    ${isModel && !seen.servers.length ? html`<p class="empty">No server was recorded at the same time.</p>` : null}
    ${seen.others.length ? html`<p class="count">${plural(seen.others.length, "other tool")} in the prompt: ${seen.others.join(", ")}</p>` : null}
  </div>`;
}

/** @param {{server: any, model: string, place: import("./address.js").Place}} props */
function Server({ server, model, place }) {
  const there = { ...place, recording: server.recording, view: "calls", filter: "", order: "", call: 0 };
  const changed = server.tools.filter((/** @type {any} */ tool) => tool.became.length);
  return html`<section>
    <h3><${Link} to=${there} words=${visible(server.title)} /> <span class="count">${plural(server.tools.length, "tool")}, ${server.in_prompt} in the prompt${server.named ? `, named ${server.named}` : ""}</span></h3>
    ${server.findings.map((/** @type {any} */ finding) => html`<${Finding} finding=${finding} there=${there} model=${model} />`)}
    ${server.list.map((/** @type {string} */ words) => html`<p class="warn">${words}</p>`)}
    ${server.instructions ? html`<p>${server.instructions.became.join("; ")} <${Cut} cut=${server.instructions.cut} /></p>` : null}
    ${changed.length ? html`<table>
      <caption>Tools that did not come through as the server said them</caption>
      <thead><tr><th scope="col">the server said</th><th scope="col">the model got</th></tr></thead>
      <tbody>${changed.map((/** @type {any} */ tool) => html`<tr>
        <th scope="row"><${Link} to=${{ ...there, filter: `frame:${tool.frame}` }} words=${tool.name} /></th>
        <td>${tool.became.map((/** @type {string} */ words, /** @type {number} */ index) => html`<p class=${!tool.in_prompt && !index ? "bad" : "warn"}>${words}</p>`)}
          <${Cut} cut=${tool.cut} /></td>
      </tr>`)}</tbody>
    </table>` : null}
    <${Unchanged} all=${server.tools} changed=${changed.length} words="tools came through as the server said them" />
    ${server.calls.length ? html`<table>
      <caption>Results</caption>
      <thead><tr><th scope="col">the server answered</th><th scope="col">the model got</th></tr></thead>
      <tbody>${server.calls.map((/** @type {any} */ call) => html`<${Result} call=${call} there=${there} />`)}</tbody>
    </table>` : null}
  </section>`;
}

/** @param {{finding: any, there: import("./address.js").Place, model: string}} props */
function Finding({ finding, there, model }) {
  return html`<p class=${`finding ${finding.severity}`}>
    <span class=${`mark ${finding.severity}`}><span aria-hidden="true">${SEVERITY_MARKS[finding.severity]}</span> ${finding.severity}</span> ${finding.rule} <span class="count">${finding.name}</span><br />
    ${finding.message} <span class="count"><${Link} to=${{ ...there, filter: `frame:${finding.frame}` }} words=${`frame ${finding.frame} of the server`} />, <${Link} to=${{ ...there, recording: model, filter: `frame:${finding.model_frame}` }} words=${`frame ${finding.model_frame} of the model`} /></span>
  </p>`;
}

/** @param {{all: any[], changed: number, words: string}} props */
function Unchanged({ all, changed, words }) {
  const names = all.filter((one) => !one.became.length).map((one) => one.name);
  if (!names.length) return null;
  return html`<p class="count">${names.length} of ${all.length} ${words}: ${names.join(", ")}</p>`;
}

/** @param {{call: any, there: import("./address.js").Place}} props */
function Result({ call, there }) {
  const rows = Math.max(call.parts.length, 1);
  const name = html`<th scope="row" rowspan=${rows}><${Link} to=${{ ...there, call: call.call }} words=${call.name} /> <span class="count">call ${call.call}</span>
    ${call.became.map((/** @type {string} */ words) => html`<p class="warn">${words}</p>`)}</th>`;
  if (!call.parts.length) return html`<tr>${name}<td>${call.became.length ? "" : "all of it"}</td></tr>`;
  return call.parts.map((/** @type {any} */ part, /** @type {number} */ index) => html`<tr>
    ${index ? null : name}
    <td><span class=${KINDS[part.way] ?? "warn"}>${part.became || `${part.what}, as it was`}</span> <${Cut} cut=${part.cut} /></td>
  </tr>`);
}

/** A link to a place in a recording; an exported page has only one. @param {{to: import("./address.js").Place, words: string}} props */
function Link({ to, words }) {
  return isExported && to.recording !== "exported" ? words : html`<a href=${href(to)}>${words}</a>`;
}

/** The text around the place where it was cut. @param {{cut: {kept: string, lost: string, more: number} | null}} props */
function Cut({ cut }) {
  if (!cut) return null;
  return html`<pre class="cut-text" tabindex="0" aria-label="where it was cut">${visible(cut.kept)}<del>${visible(cut.lost)}${cut.more ? `… ${cut.more.toLocaleString("en")} more` : ""}</del></pre>`;
}

function NoModel() {
  return html`<div class="page">
    <p>What a host's model saw of this server is not recorded. Let the host talk to its model through mcpproxy, too:</p>
    <pre>mcpproxy model https://api.anthropic.com
ANTHROPIC_BASE_URL=http://127.0.0.1:8766 claude</pre>
    <p>Both recordings must be in one folder, and open at the same time.</p>
  </div>`;
}
