// @ts-check
/** What a server did in two recordings, compared. */
import { href } from "./address.js";
import { useAnswer } from "./answer.js";
import { localTime, utcTime, visible } from "./format.js";
import { html, useEffect } from "./preact.js";

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./types.js").Recording[]} props.recordings
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>, small?: boolean) => void} props.go
 */
export function Compare({ summary, recordings, place, go }) {
  const { id } = summary.recording;
  const [answer, instead] = useAnswer(place.other && "/api/compare", { before: place.other, after: id });
  const here = recordings.find((one) => one.id === id) ?? summary.recording;
  const others = recordings.filter((one) => one.id !== id).sort((left, right) => right.started_ms - left.started_ms);
  const isSame = (/** @type {import("./types.js").Recording} */ one) => (here.server !== "" && one.server === here.server) || one.label === here.label;
  const previous = others.find((one) => one.label === here.label && one.started_ms <= here.started_ms)?.id ?? "";
  useEffect(() => {
    if (!place.other && previous) go({ other: previous }, true);
  }, [id, place.other, previous]);
  const groups = [["recordings of this server", others.filter(isSame)], ["other recordings", others.filter((one) => !isSame(one))]];
  return html`<div class="page">
    <p><label>Compare with${" "}
      <select value=${place.other} onChange=${(/** @type {any} */ event) => go({ other: event.target.value })}>
        ${previous ? null : html`<option value="">choose a recording</option>`}
        ${groups.map(([words, of]) => of.length ? html`<optgroup label=${words}>${/** @type {import("./types.js").Recording[]} */ (of).map((one) => html`<option value=${one.id} title=${utcTime(one.started_ms)}>${one.label}, ${localTime(one.started_ms)}</option>`)}</optgroup>` : null)}
      </select></label></p>
    ${instead}
    ${answer
      ? html`<p>What the server did in this recording, compared with the other one: ${answer.summary}.</p>
          ${answer.differences.map(
            (/** @type {any} */ one) => html`<article class="difference">
              <h3>${visible(one.title)} <span class=${`kind ${one.kind}`}>${one.kind}</span>
                ${one.frame ? html` <a href=${href({ ...place, recording: place.other, other: "", view: "calls", filter: `frame:${one.frame}`, call: 0 })}>in the other</a>` : null}
                ${one.found_frame ? html` <a href=${href({ ...place, other: "", view: "calls", filter: `frame:${one.found_frame}`, call: 0 })}>in this one</a>` : null}</h3>
              ${one.lines.map((/** @type {[string, string]} */ [mark, text]) => html`<pre class=${mark === "-" ? "removed" : mark === "+" ? "added" : ""}>${mark} ${visible(text)}</pre>`)}
            </article>`,
          )}`
      : null}
  </div>`;
}
