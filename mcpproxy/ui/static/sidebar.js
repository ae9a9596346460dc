// @ts-check
/** The list of the recordings in the folder; the recordings of one run are together. */
import { SEVERITY_MARKS, duration, visible } from "./format.js";
import { heldIn } from "./held.js";
import { html } from "./preact.js";
import { useStill } from "./still.js";
import { href } from "./address.js";
import { focusList } from "./virtual_list.js";

/**
 * @param {object} props
 * @param {boolean} props.isLoaded
 * @param {import("./types.js").Recording[]} props.recordings
 * @param {import("./types.js").Run[]} props.runs
 * @param {import("./held.js").Held} props.held
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Sidebar({ isLoaded, recordings, runs, held, place, go }) {
  const { press, still } = useStill();
  const byId = new Map(recordings.map((one) => [one.id, one]));
  const grouped = new Set(runs.flatMap((run) => run.recordings));
  const single = recordings.filter((one) => !grouped.has(one.id)).map((one) => ({ title: "", certainty: "", why: "", recordings: [one.id] }));
  /** @param {import("./types.js").Run} run */
  const newest = (run) => Math.max(...run.recordings.map((id) => byId.get(id)?.started_ms ?? 0));
  const groups = [...runs, ...single].sort((left, right) => newest(right) - newest(left));
  return still(html`<nav class="sidebar" aria-label="Recordings" onPointerDown=${press}>
    <h2>Recordings <span class="count">times in UTC</span></h2>
    ${recordings.length || !isLoaded ? null : html`<p class="empty">There is no recording yet. <code>mcpproxy -- YOUR SERVER</code> makes one, and it appears here.</p>`}
    ${groups.map(
      (run) => html`<div class=${run.title ? "run" : ""}>
        ${run.title ? html`<h3 title=${run.why}>${visible(run.title)} <span class="count">${run.certainty}</span></h3>` : null}
        <ul>${run.recordings.map((id) => {
          const one = byId.get(id);
          return one ? html`<li key=${id}><${Entry} one=${one} held=${heldIn(held, id).length} place=${place} go=${go} /></li>` : null;
        })}</ul>
      </div>`,
    )}
  </nav>`);
}

/**
 * @param {object} props
 * @param {import("./types.js").Recording} props.one
 * @param {number} props.held how many messages its session holds
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
function Entry({ one, held, place, go }) {
  const isHere = one.id === place.recording;
  const target = { recording: one.id, view: place.view === "compare" ? "calls" : place.view, filter: "", call: 0, other: "" };
  return html`<a class=${`recording${isHere ? " here" : ""}`} href=${href(target)} aria-current=${isHere ? "page" : undefined} title=${one.path}
    onClick=${(/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(target);
      focusList();
    }}>
    <strong>${visible(one.server || one.label)}</strong>
    ${held ? html`<span class="waiting">❚❚ ${held} held</span>` : null}
    <span class="count">${visible([one.client || one.ended, one.server && one.label !== one.server ? one.label : ""].filter(Boolean).join(" · "))}</span>
    <span class="count">${one.started_at.slice(0, 19).replace("T", " ")} · ${one.running ? html`<span class="running">running</span>` : one.state === "ended" ? duration(one.duration_ms) : one.state}${one.failed ? html` · <span class="failed">${one.failed}</span>` : null}${one.findings ? html` · <span class=${`mark ${one.severity}`}>${SEVERITY_MARKS[one.severity ?? "info"]}${one.findings}<span class="hidden"> ${one.severity}</span></span>` : null}</span>
  </a>`;
}
