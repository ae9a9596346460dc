// @ts-check
/** The calls of all recordings of a run on one time axis, with a lane for each server. */
import { get } from "./api.js";
import { duration, offset, outcome, plural, title, visible } from "./format.js";
import { html, useEffect, useMemo, useRef, useState } from "./preact.js";

const LANE = 22;

/**
 * @typedef {object} Lane
 * @property {import("./types.js").Recording} recording
 * @property {import("./types.js").Call[]} spans
 * @property {number} total how many rows there are in the range
 */

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./live.js").Live} props.live
 * @param {import("./types.js").Recording[]} props.recordings the recordings of the run
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Timeline({ summary, live, recordings, place, go }) {
  const [lanes, setLanes] = useState(/** @type {Lane[] | null} */ (null));
  const [error, setError] = useState("");
  /** The range of time of the whole run, in milliseconds since 1970. `range` is the part of it that is shown. */
  const whole = useMemo(() => {
    const start = Math.min(...recordings.map((one) => one.started_ms));
    const ends = recordings.map((one) => one.started_ms + (one.running ? Math.max(one.duration_ms ?? 0, Date.now() - one.started_ms) : (one.duration_ms ?? 0)));
    return /** @type {[number, number]} */ ([start, Math.max(start + 1, ...ends)]);
  }, [recordings]);
  const [range, setRange] = useState(whole);
  useEffect(() => setRange(whole), [whole[0], recordings.length]);
  const everyFourth = Math.floor(live.version / 4); // changes with every fourth change of the recording
  useEffect(() => {
    const request = new AbortController();
    const load = (/** @type {import("./types.js").Recording} */ recording) =>
      get(
        `/api/recordings/${recording.id}/spans`,
        { from: range[0] - recording.started_ms, to: range[1] - recording.started_ms, filter: place.filter },
        request.signal,
      ).then((answer) => ({ recording, spans: answer.rows, total: answer.total }));
    Promise.all(recordings.map(load)).then(setLanes, (fault) => {
      if (!request.signal.aborted) setError(fault.message);
    });
    return () => request.abort();
  }, [range[0], range[1], recordings.length, place.filter, everyFourth]);

  /** @param {number} factor @param {number} [centre] a fraction of the width */
  const zoom = (factor, centre = 0.5) => {
    const width = (range[1] - range[0]) * factor;
    const middle = range[0] + (range[1] - range[0]) * centre;
    const start = Math.max(whole[0], middle - width * centre);
    setRange([start, Math.min(whole[1], start + Math.max(width, 0.01))]);
  };
  /** @param {number} part of the width */
  const pan = (part) => {
    const width = range[1] - range[0];
    const start = Math.max(whole[0], Math.min(range[0] + width * part, whole[1] - width));
    setRange([start, start + width]);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    /** @type {Record<string, () => void>} */
    const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), "0": () => setRange(whole) };
    if (event.key in keys && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      keys[event.key]();
    }
  };
  if (error) return html`<p class="problem">${error}</p>`;
  return html`<div class="page timeline" tabindex="0" role="group" aria-label="Timeline" onKeyDown=${onKeyDown}>
    <div class="actions">
      <button type="button" onClick=${() => zoom(0.5)}>Zoom in <kbd>+</kbd></button>
      <button type="button" onClick=${() => zoom(2)}>Zoom out <kbd>-</kbd></button>
      <button type="button" onClick=${() => pan(-0.25)} aria-label="Earlier">◀</button>
      <button type="button" onClick=${() => pan(0.25)} aria-label="Later">▶</button>
      <button type="button" onClick=${() => setRange(whole)}>All <kbd>0</kbd></button>
      <span class="count">${duration(range[1] - range[0])} of ${duration(whole[1] - whole[0])}, ${plural(recordings.length, "server")}</span>
    </div>
    <${Ruler} range=${range} origin=${whole[0]} />
    ${(lanes ?? []).map((lane) => html`<${LaneView} key=${lane.recording.id} lane=${lane} range=${range} isOwn=${lane.recording.id === summary.recording.id} selected=${place.call} go=${go} onZoom=${zoom} />`)}
  </div>`;
}

/** @param {{range: [number, number], origin: number}} props */
function Ruler({ range, origin }) {
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => [part * 100, range[0] + (range[1] - range[0]) * part - origin]);
  return html`<div class="ruler" aria-hidden="true">${marks.map(([left, ms]) => html`<span style=${{ left: `${left}%` }}>${offset(ms)}</span>`)}</div>`;
}

/**
 * Put spans into as few rows as possible, so that spans of one row do not overlap.
 *
 * @param {import("./types.js").Call[]} spans in the order of their start
 * @param {number} least the width, in milliseconds, at which a shorter span is drawn
 * @returns {number[]} the row of each span
 */
function packed(spans, least) {
  /** @type {number[]} */
  const ends = [];
  return spans.map((call) => {
    const end = call.started_ms + Math.max(call.latency_ms ?? call.waited_ms ?? 0, least);
    let row = ends.findIndex((other) => other <= call.started_ms);
    if (row < 0) row = ends.length;
    ends[row] = end;
    return row;
  });
}

/**
 * @param {object} props
 * @param {Lane} props.lane
 * @param {[number, number]} props.range
 * @param {boolean} props.isOwn
 * @param {number} props.selected
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {(factor: number, centre: number) => void} props.onZoom
 */
function LaneView({ lane, range, isOwn, selected, go, onZoom }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const { recording, spans, total } = lane;
  const width = range[1] - range[0];
  const rows = packed(spans, width / 400);
  const count = Math.min(Math.max(0, ...rows) + 1, 30);
  const start = range[0] - recording.started_ms;
  /** @param {WheelEvent} event */
  const onWheel = (event) => {
    if (!event.ctrlKey || !box.current) return;
    event.preventDefault();
    const edges = box.current.getBoundingClientRect();
    onZoom(event.deltaY > 0 ? 1.5 : 0.67, (event.clientX - edges.left) / edges.width);
  };
  return html`<section class="lane" aria-label=${recording.server || recording.label}>
    <h3>${visible(recording.server || recording.label)} <span class="count">${plural(total, "row")}${total > spans.length ? `, the longest ${spans.length.toLocaleString("en")} of them are drawn` : ""}</span></h3>
    <p class="hidden">The view Calls lists the same calls with their times.</p>
    <div class="spans" aria-hidden="true" ref=${box} style=${{ height: `${count * LANE}px` }} onWheel=${onWheel}>
      ${spans.map((call, index) => {
        if (rows[index] >= count) return null;
        const ms = call.latency_ms ?? call.waited_ms ?? 0;
        const left = Math.max(0, ((call.started_ms - start) / width) * 100);
        const right = Math.min(100, ((call.started_ms + ms - start) / width) * 100);
        const [symbol, words, kind] = outcome(call);
        const name = `${title(call)}, ${words || call.kind}, ${duration(ms)}`;
        return html`<div key=${call.number} class=${`span ${kind}${isOwn && call.number === selected ? " selected" : ""}`} title=${name}
          style=${{ left: `${left}%`, width: `max(4px, ${right - left}%)`, top: `${rows[index] * LANE}px` }}
          onClick=${() => go({ recording: recording.id, view: "calls", filter: "", call: call.number })}>${symbol} ${visible(title(call))}</div>`;
      })}
    </div>
  </section>`;
}
