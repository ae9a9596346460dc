// @ts-check
/** The calls of all recordings of a run on one line of time, with lanes for each server. */
import { get } from "./api.js";
import { LocalTime, duration, offset, outcome, plural, title, visible } from "./format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { Sequence } from "./sequence.js";
import { axisMarks } from "./time_axis.js";
import { useThrottled, useTicks } from "./throttle.js";

const LANE = 22;
/** A bar is drawn by itself if it is at least so wide; narrower ones that follow each other are one bar. */
const NARROW = 2;
/** The least width of a bar with a name, and of a part of the axis, and the width of a digit, in pixels. */
const NAMED = 36;
const DIGIT = 8;
const PART = 110;
const TICK_MS = 250;
const LIVE_MS = 1000;
/** A time after every recording, in milliseconds. */
const ALL_TIME = 1e12;
/** How far the pointer moves before it drags. */
const DRAG = 4;

/** @typedef {import("./types.js").Lanes & {recording: import("./types.js").Recording}} Server */

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./live.js").Live} props.live
 * @param {import("./types.js").Recording[]} props.recordings the recordings of the run
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Timeline({ summary, live, recordings, place, go }) {
  const [servers, setServers] = useState(/** @type {Server[] | null} */ (null));
  const [error, setError] = useState("");
  /** The range of time that is shown, in milliseconds since 1970; null for the whole run. */
  const [chosen, setChosen] = useState(/** @type {[number, number] | null} */ (null));
  const [isSequence, setSequence] = useState(false);
  const ruler = useRef(/** @type {HTMLElement | null} */ (null));
  const [pixels, setPixels] = useState(0);
  const isRunning = live.running || recordings.some((one) => one.running);
  useTicks(isRunning && !live.paused, TICK_MS);
  const others = useTicks(recordings.some((one) => one.running && one.id !== summary.recording.id), 2 * LIVE_MS);
  const version = useThrottled(live.version, LIVE_MS);

  const start = Math.min(...recordings.map((one) => one.started_ms));
  const end = Math.max(start + 1, ...recordings.map((one) => one.started_ms + Math.max(one.duration_ms ?? 0, isOpen(one) ? Date.now() - one.started_ms : 0)));
  /** @param {import("./types.js").Recording} one */
  function isOpen(one) {
    return one.id === summary.recording.id ? live.running : one.running;
  }
  const [from, to] = chosen ?? [start, end];
  const width = to - from;

  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (ruler.current);
    const measure = () => setPixels(element.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  const ids = recordings.map((one) => one.id).join();
  // A recording that joins the run is later than its first one, and changes nothing of what is shown.
  useEffect(() => setChosen(null), [recordings[0]?.id]);
  useEffect(() => {
    if (!pixels) return undefined;
    const request = new AbortController();
    const narrow = (width / pixels) * NARROW;
    const load = (/** @type {import("./types.js").Recording} */ recording) =>
      get(`/api/recordings/${recording.id}/spans`, { from: from - recording.started_ms, to: to - recording.started_ms, narrow, filter: place.filter }, request.signal).then((answer) => ({ recording, ...answer }));
    Promise.all(recordings.map(load)).then(
      (found) => {
        if (request.signal.aborted) return;
        setError("");
        setServers(found);
      },
      (fault) => {
        if (!request.signal.aborted) setError(fault.message);
      },
    );
    return () => request.abort();
  }, [chosen?.[0], chosen?.[1], pixels, ids, place.filter, version, others, live.running]);

  /** @param {number} factor @param {number} [centre] a fraction of the width */
  const zoom = (factor, centre = 0.5) => {
    const wide = Math.max(width * factor, 0.01);
    if (wide >= end - start) return setChosen(null);
    const left = Math.min(Math.max(start, from + (width - wide) * centre), end - wide);
    return setChosen([left, left + wide]);
  };
  /** @param {number} part of the width */
  const pan = (part) => {
    if (!chosen) return;
    const left = Math.max(start, Math.min(from + width * part, end - width));
    setChosen([left, left + width]);
  };
  /** Show a stretch of time, with some time around it. @param {number} left @param {number} right */
  const show = (left, right) => {
    const margin = Math.max((right - left) * 0.05, 0.01);
    setChosen([Math.max(start, left - margin), Math.min(end, right + margin)]);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    /** @type {Record<string, () => void>} */
    const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), "0": () => setChosen(null) };
    if (event.key in keys && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      keys[event.key]();
    }
  };
  return html`<div class="page timeline" tabindex="0" role="group" aria-label="Timeline" onKeyDown=${onKeyDown}>
    <div class="actions">
      <button type="button" onClick=${() => zoom(0.5)}>Zoom in <kbd>+</kbd></button>
      <button type="button" onClick=${() => zoom(2)}>Zoom out <kbd>-</kbd></button>
      <button type="button" onClick=${() => pan(-0.25)} aria-label="Earlier">◀</button>
      <button type="button" onClick=${() => pan(0.25)} aria-label="Later">▶</button>
      <button type="button" onClick=${() => setChosen(null)}>All <kbd>0</kbd></button>
      <button type="button" class="chip" aria-pressed=${isSequence} onClick=${() => setSequence(!isSequence)}>sequence</button>
      <span class="count">${duration(width)} of ${duration(end - start)} from <${LocalTime} ms=${from} />, ${plural(recordings.length, "recording")}. Ctrl and the wheel zoom, a drag moves.</span>
    </div>
    ${error ? html`<p class="problem">${error}</p>` : null}
    <div class="ruler" aria-hidden="true" ref=${ruler}>${axisMarks(from - start, to - start, Math.max(2, pixels / PART)).map(({ ms, text }) => {
      const left = ((ms - (from - start)) / width) * 100;
      return html`<span class=${left < 4 ? "first" : left > 96 ? "last" : ""} style=${{ left: `${left}%` }}>${text}</span>`;
    })}</div>
    ${(servers ?? []).map((server) => html`<${ServerLanes} key=${server.recording.id} server=${server} from=${from - server.recording.started_ms} width=${width} pixels=${pixels}
      now=${isOpen(server.recording) ? Date.now() - server.recording.started_ms : null} selected=${server.recording.id === summary.recording.id ? place.call : 0}
      go=${go} onZoom=${zoom} onPan=${pan} onShow=${(/** @type {number} */ left, /** @type {number} */ right) => show(left + server.recording.started_ms, right + server.recording.started_ms)} />`)}
    ${isSequence ? html`<${Sequence} recordings=${recordings} from=${chosen?.[0] ?? start} to=${chosen?.[1] ?? start + ALL_TIME} filter=${place.filter} version=${version} go=${go} />` : null}
  </div>`;
}

/**
 * @param {object} props
 * @param {Server} props.server
 * @param {number} props.from milliseconds since the start of this recording, as all times here
 * @param {number} props.width
 * @param {number} props.pixels the same in pixels
 * @param {number | null} props.now null if the recording does not run
 * @param {number} props.selected
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {(factor: number, centre: number) => void} props.onZoom
 * @param {(part: number) => void} props.onPan
 * @param {(from: number, to: number) => void} props.onShow
 */
function ServerLanes({ server, from, width, pixels, now, selected, go, onZoom, onPan, onShow }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [named, setNamed] = useState(/** @type {import("./types.js").Bar | null} */ (null));
  const dragged = useRef({ x: 0, isDrag: false });
  const { recording, bars, lanes, total, left_out } = server;
  const hasMessages = bars.some((bar) => bar.lane < 0);
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  /** @param {import("./types.js").Bar} bar */
  const ended = (bar) => (now !== null && bar.call?.outcome === "unanswered" ? Math.max(now, bar.to_ms) : bar.to_ms);
  /** @param {import("./types.js").Bar} bar @returns {[number, number]} where it begins and how wide it is, in pixels */
  const drawn = (bar) => {
    const left = Math.max(0, Math.min(((bar.from_ms - from) / width) * pixels, pixels - NARROW));
    const right = Math.min(pixels, ((ended(bar) - from) / width) * pixels);
    return [left, Math.max(NARROW, right - left)];
  };
  /** @param {WheelEvent} event */
  const onWheel = (event) => {
    if (!box.current) return;
    const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey) {
      const edges = box.current.getBoundingClientRect();
      onZoom(event.deltaY > 0 ? 1.5 : 0.67, (event.clientX - edges.left) / edges.width);
    } else if (across) onPan(across / pixels);
    else return;
    event.preventDefault();
  };
  /** @param {PointerEvent} event */
  const onPointerMove = (event) => {
    if (!(event.buttons & 1)) return;
    const by = event.clientX - dragged.current.x;
    if (!dragged.current.isDrag && Math.abs(by) < DRAG) return;
    dragged.current = { x: event.clientX, isDrag: true };
    onPan(-by / pixels);
  };
  const [place, space] = named ? drawn(named) : [0, 0];
  return html`<section class="lane" aria-label=${recording.label}>
    <h3>${visible(recording.label)} <span class="count">${plural(total, "row")}${lanes > 1 ? `, up to ${lanes} calls at a time` : ""}${left_out ? `, and ${left_out.toLocaleString("en")} more beside them that are not drawn` : ""}</span></h3>
    <p class="hidden">The view Calls lists the same calls with their times.</p>
    <div class="spans" aria-hidden="true" ref=${box} style=${{ height: `${Math.max(1, lanes) * LANE + (hasMessages ? LANE : 0)}px` }} onWheel=${onWheel} onPointerLeave=${() => setNamed(null)}
      onPointerDown=${(/** @type {PointerEvent} */ event) => (dragged.current = { x: event.clientX, isDrag: false })} onPointerMove=${onPointerMove}
      onClickCapture=${(/** @type {Event} */ event) => dragged.current.isDrag && event.stopPropagation()}>
      ${bars.map((bar) => {
        const [left, wide] = drawn(bar);
        const lane = bar.lane < 0 ? Math.max(1, lanes) : bar.lane;
        const [symbol, , kind] = bar.call ? outcome(bar.call, now !== null) : ["", "", bar.errors ? "bad" : "plain"];
        const shape = bar.lane < 0 ? " message" : bar.count > 1 ? " dense" : "";
        const number = bar.call ? `#${bar.call.number}` : bar.count.toLocaleString("en");
        const isNumbered = bar.lane >= 0 && wide >= (number.length + 1) * DIGIT;
        const text = bar.call && wide >= NAMED ? html`${number} ${symbol} ${visible(title(bar.call))}` : isNumbered ? number : "";
        return html`<div key=${`${bar.lane}/${bar.from_ms}`} class=${`span ${kind} ${bar.call?.outcome ?? ""}${shape}${bar.call && bar.call.number === selected ? " selected" : ""}`}
          style=${{ left: `${left}px`, width: `${wide}px`, top: `${lane * LANE}px`, "--share": `${Math.round((bar.count / most) * 100)}%` }}
          onPointerEnter=${() => setNamed(bar)}
          onClick=${() => {
            setNamed(null);
            if (bar.call) go({ recording: recording.id, view: "calls", filter: "", order: "", call: bar.call.number });
            else onShow(bar.from_ms, bar.to_ms);
          }}>${text}</div>`;
      })}
    </div>
    ${named ? html`<p class=${`tip${place + space / 2 > pixels / 2 ? " right" : ""}`} style=${place + space / 2 > pixels / 2 ? { right: `${Math.max(0, pixels - place - space)}px` } : { left: `${place}px` }}>${named.call ? about(named.call, ended(named), now !== null) : together(named)}</p>` : null}
  </section>`;
}

/** @param {import("./types.js").Call} call @param {number} to when it ended, or now @param {boolean} running */
function about(call, to, running) {
  const [symbol, words, kind] = outcome(call, running);
  const took = call.kind === "request" ? `${call.latency_ms === null ? "waited" : "took"} ${duration(to - call.started_ms)}, ` : "";
  return html`<strong>#${call.number} ${visible(title(call))}</strong> <span class=${kind}>${symbol} ${words}</span><br />${took}${call.sender === "client" ? "from the client" : "from the server"} at ${offset(call.started_ms)}${call.result ? html`<br />${visible(call.result.slice(0, 120))}` : null}`;
}

/** @param {import("./types.js").Bar} bar several rows */
function together(bar) {
  return html`<strong>${plural(bar.count, "row")}</strong>${bar.errors ? html` <span class="bad">✗ ${bar.errors.toLocaleString("en")} failed</span>` : null}<br />${duration(bar.to_ms - bar.from_ms)} from ${offset(bar.from_ms)} on; a click zooms in`;
}
