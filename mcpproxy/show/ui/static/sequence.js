// @ts-check
/** The calls of a stretch of time as a sequence diagram: the client, and a line for each server. */
import { get } from "./api.js";
import { CopyButton } from "./copy.js";
import { offset, plural, state, visible } from "./format.js";
import { html, useEffect, useState } from "./preact.js";

const MOST = 100;

/** @typedef {import("./types.js").Arrow & {recording: import("./types.js").Recording, column: number}} Drawn */

/**
 * @param {object} props
 * @param {import("./types.js").Recording[]} props.recordings
 * @param {number} props.from milliseconds since 1970
 * @param {number} props.to
 * @param {string} props.filter
 * @param {number} props.version changes when the recordings have changed
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Sequence({ recordings, from, to, filter, version, go }) {
  const [answers, setAnswers] = useState(/** @type {import("./types.js").Sequence[] | null} */ (null));
  const [error, setError] = useState("");
  const ids = recordings.map((one) => one.id).join();
  useEffect(() => {
    const request = new AbortController();
    const load = (/** @type {import("./types.js").Recording} */ one, /** @type {number} */ index) =>
      get(`/api/recordings/${one.id}/sequence`, { from: from - one.started_ms, to: to - one.started_ms, filter, server: index + 1 }, request.signal);
    Promise.all(recordings.map(load)).then(
      (found) => request.signal.aborted || (setError(""), setAnswers(found)),
      (fault) => request.signal.aborted || setError(fault.message),
    );
    return () => request.abort();
  }, [ids, from, to, filter, version]);
  if (error) return html`<p class="problem">${error}</p>`;
  if (!answers || answers.length !== recordings.length) return html`<p class="empty">loading</p>`;
  const start = Math.min(...recordings.map((one) => one.started_ms));
  /** @type {Drawn[]} */
  const all = answers.flatMap((answer, index) => answer.arrows.map((arrow) => ({ ...arrow, at_ms: arrow.at_ms + recordings[index].started_ms - start, recording: recordings[index], column: index + 2 })));
  if (recordings.length > 1) all.sort((left, right) => left.at_ms - right.at_ms);
  const arrows = all.slice(0, MOST * 4);
  const left_out = answers.reduce((sum, one) => sum + one.left_out, 0);
  const mermaid = () => ["sequenceDiagram", answers[0].participants[0], ...answers.map((one) => one.participants[1]), ...arrows.map((one) => one.mermaid), ""].join("\n");
  return html`<section class="sequence" aria-label="Sequence" style=${{ "--columns": recordings.length + 1 }}>
    <div class="actions"><${CopyButton} words="Copy as Mermaid" text=${mermaid} />
      <span class="count">${plural(arrows.length, "message")}${left_out ? `, ${plural(left_out, "more call")} left out: zoom in, or filter` : ""}${arrows.length < all.length ? `, ${plural(all.length - arrows.length, "more message")} left out` : ""}</span></div>
    <div class="peers"><span class="at">time</span><span class="peer" style=${{ gridColumn: 2 }}>client</span>${recordings.map((one, index) => html`<span class="peer" style=${{ gridColumn: index + 3 }}>${visible(one.server || one.label)}</span>`)}</div>
    <ol>${arrows.map((arrow) => {
      const [symbol, words, kind] = arrow.outcome ? state(arrow.outcome, arrow.recording.running) : ["", "", ""];
      const server = visible(arrow.recording.server || arrow.recording.label);
      return html`<li>
        <span class="at">${offset(arrow.at_ms)}</span>
        <button type="button" class=${`arrow ${kind} ${arrow.sender}${arrow.outcome ? " answer" : ""}`} style=${{ "--to": arrow.column }} onClick=${() => go({ recording: arrow.recording.id, view: "calls", filter: "", order: "", call: arrow.row })}>
          <span class="hidden">${arrow.sender === "client" ? html`client to ${server}` : html`${server} to client`}${words ? `, ${words}` : ""}: </span><span aria-hidden="true">${symbol}</span> ${visible(arrow.text)}
        </button>
      </li>`;
    })}</ol>
  </section>`;
}
