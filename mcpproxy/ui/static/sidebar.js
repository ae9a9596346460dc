// @ts-check
/** The list of recordings. Those of one run are grouped. */
import { duration, visible } from "./format.js";
import { html } from "./preact.js";
import { href } from "./address.js";

/**
 * @param {object} props
 * @param {import("./types.js").Recording[]} props.recordings
 * @param {import("./types.js").Run[]} props.runs
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Sidebar({ recordings, runs, place, go }) {
  const byId = new Map(recordings.map((recording) => [recording.id, recording]));
  const grouped = new Set(runs.flatMap((run) => run.recordings));
  const single = recordings.filter((recording) => !grouped.has(recording.id)).map((recording) => ({ title: "", certainty: "", why: "", recordings: [recording.id] }));
  /** @param {import("./types.js").Run} run */
  const newest = (run) => Math.max(...run.recordings.map((id) => byId.get(id)?.started_ms ?? 0));
  const groups = [...runs, ...single].sort((left, right) => newest(right) - newest(left));
  return html`<nav class="sidebar" aria-label="Recordings">
    <h2>Recordings</h2>
    ${recordings.length ? null : html`<p class="empty">There is no recording yet. <code>mcpproxy -- YOUR SERVER</code> makes one, and it appears here.</p>`}
    ${groups.map(
      (run) => html`<div class=${run.title ? "run" : ""}>
        ${run.title ? html`<h3 title=${run.why}>${visible(run.title)} <span class="count">${run.certainty}</span></h3>` : null}
        <ul>${run.recordings.map((id) => {
          const recording = byId.get(id);
          return recording ? html`<li key=${id}><${Entry} recording=${recording} place=${place} go=${go} /></li>` : null;
        })}</ul>
      </div>`,
    )}
  </nav>`;
}

/**
 * @param {object} props
 * @param {import("./types.js").Recording} props.recording
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
function Entry({ recording, place, go }) {
  const isHere = recording.id === place.recording;
  const target = { recording: recording.id, view: place.view === "compare" ? "calls" : place.view, filter: "", call: 0, other: "" };
  return html`<a class=${`recording${isHere ? " here" : ""}`} href=${href(target)} aria-current=${isHere ? "page" : undefined} title=${recording.path}
    onClick=${(/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(target);
    }}>
    <strong>${visible(recording.server || recording.label)}</strong>
    <span class="count">${visible(recording.client || recording.label)}</span>
    <span class="count">${recording.started_at.slice(0, 19).replace("T", " ")} · ${recording.running ? html`<span class="running">running</span>` : recording.state === "ended" ? duration(recording.duration_ms) : recording.state}${recording.findings ? html` · <span class="mark warning">▲${recording.findings}</span>` : null}</span>
  </a>`;
}
