// @ts-check
/** In which hosts the server of a recording works: a matrix, and below it what each host refuses, loses or changes. */
import { useAnswer } from "./answer.js";
import { visible } from "./format.js";
import { html } from "./preact.js";

/** The class of a state, and of an effect: its colour. @type {Record<string, string>} */
const KINDS = { works: "good", degraded: "warn", blocked: "bad", refused: "bad", lost: "warn", changed: "note" };
/** @type {Record<string, string>} */
const MARKS = { works: "✓", degraded: "▲", blocked: "✗" };

/** @typedef {{id: string, name: string, state: string, reasons: {rule: string, effect: string, text: string}[]}} Host */

/** @param {{summary: import("./types.js").Summary}} props */
export function WorksIn({ summary }) {
  const [answer, instead] = useAnswer(`/api/recordings/${summary.recording.id}/works-in`); // of a running session as it is now: all of it is judged
  if (!answer) return instead;
  /** @type {{states: string[], hosts: Host[], has_server: boolean}} */
  const { states, hosts, has_server } = answer;
  if (!has_server) return html`<div class="page works-in" role="region" aria-label="Works in" tabindex="0"><p class="count">No server of MCP has answered in this recording, so nothing can be said of hosts.</p></div>`;
  const known = hosts.filter((one) => one.state !== "unknown");
  const unknown = hosts.filter((one) => one.state === "unknown");
  return html`<div class="page works-in" role="region" aria-label="Works in" tabindex="0">
    <p class="count">What hosts do with what this recording shows of the server, by facts that were measured, or seen in their source. A host that refuses the server or a request is blocked, one that loses something for its model is degraded. A server breaks no rule by that.</p>
    <table>
      <caption class="hidden">Hosts in which the server works</caption>
      <thead><tr><th scope="col">host</th>${states.map((state) => html`<th scope="col">${state}</th>`)}</tr></thead>
      <tbody>${known.map((one) => html`<tr>
        <th scope="row">${visible(one.name)}</th>
        ${states.map((state) => html`<td class=${KINDS[state]}>${one.state === state ? html`<span aria-hidden="true">${MARKS[state]}</span><span class="hidden">${state}</span>` : null}</td>`)}
      </tr>`)}</tbody>
    </table>
    ${known.filter((one) => one.reasons.length).map((one) => html`<section>
      <h3>${visible(one.name)} <span class=${KINDS[one.state]}>${one.state}</span></h3>
      <ul class="plain">${one.reasons.map((reason) => html`<li><span class=${KINDS[reason.effect]}>${reason.effect}</span> <span class="count">${reason.rule}</span> ${visible(reason.text)}</li>`)}</ul>
    </section>`)}
    ${unknown.length ? html`<p class="count">Nothing of this grade is known of ${unknown.map((one) => one.name).join(", ")}. For all facts: <code>mcpproxy check --hosts all --hosts-grade thread</code></p>` : null}
  </div>`;
}
