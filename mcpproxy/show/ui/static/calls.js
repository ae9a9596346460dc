// @ts-check
/** The list of calls with its filter, a waterfall of the visible rows, and the detail of the selected call. */
import { get, subscribe } from "./api.js";
import { CallDetail } from "./detail.js";
import { SEVERITY_MARKS, duration, localTime, offset, outcome, plural, said, sessionNames, size, steps, taken, takenClass, title, utcTime, visible } from "./format.js";
import { Panes } from "./panes.js";
import { html, useEffect, useMemo, useRef, useState } from "./preact.js";
import { RowCache } from "./row_cache.js";
import { useThrottled, useTicks, useTyped } from "./throttle.js";
import { VirtualList } from "./virtual_list.js";

const TICK_MS = 250;
/** How long the rows of a running recording stay sorted as they are. */
const SORT_MS = 2000;

/** Class, words, orders and explanation of each column. @type {[string, string, string[], string?][]} */
const HEADINGS = [
  ["number", "#", []],
  ["time", "time", ["-time"], "sort: the last first"],
  ["outcome", "outcome", ["outcome", "-outcome"], "sort: the failed first"],
  ["method", "method, target", ["method", "-method"], "sort by method and target"],
  ["preview", "arguments → result", ["-bytes", "bytes"], "sort by size: request and answer together"],
  ["latency", "latency", ["-latency", "latency"], "sort: the slowest first; waiting counts"],
  ["bar", "waterfall", [], "the rows in sight on one line of time"],
];

/** The rows stay as they are if the server of the page does not answer. */
const stay = () => undefined;

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./types.js").Recording} props.recording the recording as it is now
 * @param {import("./types.js").Summary["sessions"]} props.sessions
 * @param {import("./live.js").Live} props.live
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>, small?: boolean) => void} props.go
 */
export function Calls({ summary, recording, sessions, live, place, go }) {
  const id = summary.recording.id;
  /** What is listed: the last filter and order that could be applied. `total` is null until the rows are counted. */
  const [listed, setListed] = useState({ filter: "", order: "", total: /** @type {number | null} */ (null) });
  const { total } = listed;
  const [error, setError] = useState("");
  const [isApplying, setApplying] = useState(true);
  const [, setVersion] = useState(0);
  const [progress, setProgress] = useState(/** @type {{done: number, total: number, found: number} | null} */ (null));
  const [selected, setSelected] = useState(-1);
  const [following, setFollowing] = useState(false);
  const [range, setRange] = useState([0, 0]);
  const [isWide, setWide] = useState(false);
  const redraw = () => setVersion((version) => version + 1);
  const cache = useMemo(
    () => new RowCache(id, listed.filter, listed.order, redraw, (fault) => setError(fault.message)),
    [id, listed.filter, listed.order],
  );
  useEffect(() => {
    // The list says which rows it shows only if that changes.
    if (total && range[1] > range[0]) cache.show(Math.min(range[0], total - 1), Math.min(range[1], total));
    return () => cache.close();
  }, [cache]);

  /** The call in the address and what is listed now, for answers that come later. */
  const chosen = useRef(place.call);
  chosen.current = place.call;
  const shown = useRef(listed);
  shown.current = listed;
  /** Select the call in the address among the rows of a filter. @param {string} filter @param {string} order */
  const selectCall = (filter, order) => {
    const number = chosen.current;
    if (!number) {
      setSelected(-1);
      return;
    }
    get(`/api/recordings/${id}/position`, { filter, order, call: number }).then((answer) => {
      const isCurrent = chosen.current === number && shown.current.filter === filter && shown.current.order === order;
      if (answer.position !== null && isCurrent) setSelected(answer.position);
    }, stay);
  };

  // Get the number of rows that pass the filter, and the position of the call in the address among them. A filter
  // with free text reads the whole recording, so the server applies a filter step by step first; it sorts so, too.
  // Until then, and if the filter cannot be read, the rows of the last one stay.
  useEffect(() => {
    let isCurrent = true;
    const { filter, order } = place;
    setError("");
    setProgress(null);
    setApplying(true);
    const query = { filter, order, call: place.call || undefined };
    /** @param {{total: number, position: number | null}} answer */
    const show = (answer) => {
      if (!isCurrent) return;
      setApplying(false);
      setListed({ filter, order, total: answer.total });
      if (chosen.current === place.call) setSelected(answer.position ?? -1);
      else selectCall(filter, order); // another row was chosen while the server looked for this one
    };
    const showAll = () => {
      setListed({ filter: "", order: "", total: live.rows });
      setSelected(place.call && place.call <= live.rows ? place.call - 1 : -1);
    };
    const locate = () => {
      get(`/api/recordings/${id}/position`, query)
        .then(show)
        .catch((fault) => {
          if (!isCurrent) return;
          setError(fault.message.trim());
          setProgress(null);
          setApplying(false);
          if (total === null) showAll();
        });
    };
    if (!filter && !order) {
      showAll();
      setApplying(false);
      return undefined;
    }
    const end = subscribe(`/api/recordings/${id}/search`, query, {
      progress: (change) => setProgress(change),
      end: (found) => {
        setProgress(null);
        end();
        if (found) show(found);
        else locate(); // an exported page sends no answer with this event
      },
      failed: () => {
        end();
        locate(); // the answer to this request says what is wrong with the filter
      },
    });
    return () => {
      isCurrent = false;
      end();
    };
  }, [id, place.filter, place.order]);

  useEffect(() => {
    if (!place.call) setWide(false);
  }, [place.call]);

  // Select the call in the address after a link or the browser's history has changed the address.
  useEffect(() => {
    if (total !== null && cache.row(selected)?.number !== place.call) selectCall(listed.filter, listed.order);
  }, [place.call]);

  /** The first row that has changed since rows were read again: several changes may come before that. */
  const changed = useRef(Infinity);
  useEffect(() => {
    if (live.first) changed.current = Math.min(changed.current, live.first);
  }, [live.version]);
  // Read the rows that were added or have changed while the recording runs. To sort many rows takes a while.
  const version = useThrottled(live.version, listed.order ? SORT_MS : 0);
  useEffect(() => {
    if (!version || total === null || (live.running && !live.first)) return;
    const { filter, order } = listed;
    const first = changed.current - 1;
    changed.current = Infinity;
    /** @param {number} count */
    const grow = (count) => setListed((now) => (now.filter === filter && now.order === order ? { filter, order, total: count } : now));
    if (!filter && !order) {
      grow(live.rows);
      // At the end, calls without an answer have waited until then, whether or not their rows have changed.
      cache.changed(live.running ? first : 0);
      return;
    }
    const call = place.call;
    get(`/api/recordings/${id}/position`, { filter, order, call: call || undefined }).then((answer) => {
      grow(answer.total);
      if (call && chosen.current === call) setSelected(answer.position ?? -1); // new rows may have moved it
      cache.changed(order ? 0 : Math.max(0, Math.min(total, answer.total) - 200));
    }, stay);
  }, [version, total === null]);

  const rows = [];
  for (let index = range[0]; index < range[1]; index += 1) {
    const call = cache.row(index);
    if (call) rows.push(call);
  }
  useTicks(live.running && rows.some((call) => call.outcome === "unanswered"), TICK_MS);
  const now = live.now();
  const names = sessionNames(sessions);
  const scale = waterfall(rows, now);

  /** The index of a row that was chosen before it was loaded, or -1. */
  const awaited = useRef(-1);
  /** @param {number} index */
  const select = (index) => {
    setSelected(index);
    const call = cache.row(index);
    awaited.current = call ? -1 : index;
    if (call) go({ call: call.number });
  };
  const call = cache.row(selected);
  useEffect(() => {
    if (!call || awaited.current !== selected) return;
    awaited.current = -1;
    go({ call: call.number });
  }, [call?.number]);

  const open = () => document.querySelector(/** @type {"section"} */ (".detail"))?.focus();
  const head = HEADINGS.map(([name, words, by, about]) => html`<${Heading} name=${name} words=${words} by=${by} about=${about} order=${place.order} go=${go} />`);
  return html`
    <div class="calls">
      <${FilterBar} place=${place} go=${go} total=${isApplying ? null : total} all=${live.rows} error=${error} shown=${listed.filter}
        following=${following} onFollowing=${setFollowing} running=${live.running} />
      ${progress ? html`<${SearchProgress} progress=${progress} onCancel=${() => go({ filter: "", order: "" })} />` : null}
      <${Panes} kind=${`split${place.call ? ` with-detail${isWide ? " wide" : ""}` : ""}`} name="list-left" label="Width of the list" initial=${55}
        left=${total === 0
          ? html`<p class="empty">${listed.filter ? "No call fits this filter." : live.running ? "Nothing was sent yet. Calls appear here when they are made." : html`This recording has no messages: ${visible(recording.ended)}${summary.target ? html`<br />Its command was <code>${visible(summary.target)}</code>` : null}`}</p>`
          : html`<${VirtualList} label="Calls" list=${`${listed.order} ${listed.filter}`} total=${total ?? 0} columns=${7} head=${head} selected=${selected}
              onSelect=${select} onOpen=${open} onShown=${(/** @type {number} */ first, /** @type {number} */ last) => {
                setRange([first, last]);
                cache.show(first, last);
              }}
              following=${following} onFollowing=${setFollowing}
              row=${(/** @type {number} */ index) => html`<${Row} call=${cache.row(index)} index=${index} now=${now} running=${live.running} scale=${scale} names=${names} began=${summary.recording.started_ms} />`} />`}
        right=${place.call ? html`<${CallDetail} key=${`${id}/${place.call}`} summary=${summary} sessions=${sessions} live=${live} place=${place} go=${go} isWide=${isWide} setWide=${setWide} />` : null} />
    </div>`;
}

/**
 * The heading of a column. It sorts by it, then the other way round, and then not any more.
 *
 * @param {object} props
 * @param {string} props.name
 * @param {string} props.words
 * @param {string[]} props.by the orders that clicks lead to, one after the other; none if nothing is sorted by it
 * @param {string} [props.about]
 * @param {string} props.order
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
function Heading({ name, words, by, about, order, go }) {
  if (!by.length) return html`<span role="columnheader" class=${`c-${name}`} title=${about}>${words}</span>`;
  const at = by.indexOf(order);
  const sorted = at < 0 ? "none" : order.startsWith("-") ? "descending" : "ascending";
  return html`<span role="columnheader" class=${`c-${name}`} aria-sort=${sorted}>
    <button type="button" title=${about} onClick=${() => go({ order: [...by, ""][at + 1] })}>${words}${at < 0 ? null : html` <span class="sorted">${name === "preview" ? "size " : ""}${sorted === "descending" ? "▾" : "▴"}</span>`}</button>
  </span>`;
}

/** @param {{progress: {done: number, total: number, found: number}, onCancel: () => void}} props */
function SearchProgress({ progress, onCancel }) {
  const part = progress.total ? progress.done / progress.total : 0;
  return html`<p class="searching" role="status">
    <progress value=${part} max="1" aria-label="Searched"></progress>
    ${Math.round(part * 100)} % read, ${progress.found.toLocaleString("en")} found
    <button type="button" onClick=${onCancel}>Cancel</button>
  </p>`;
}

/**
 * Return the range of time that the bars of the given rows show, in milliseconds since the start of the recording.
 * Of each call it covers at most the first minute, and not the first call, during which the server starts: beside it
 * all others would be too small to be seen.
 *
 * @param {import("./types.js").Call[]} rows
 * @param {number} now
 * @returns {[number, number]}
 */
function waterfall(rows, now) {
  const others = rows.filter((call) => call.method !== "initialize");
  const scaled = others.length ? others : rows;
  if (!scaled.length) return [0, 1];
  const start = Math.min(...scaled.map((call) => call.started_ms));
  const ends = scaled.map((call) => call.started_ms + Math.min(taken(call, now, false) ?? 0, 60_000));
  return [start, Math.max(...ends, start + 0.001)];
}

/**
 * @param {{call: import("./types.js").Call | undefined, index: number, now: number, running: boolean, scale: [number, number], names: Map<number, string>, began: number}} props `began` is in milliseconds since 1970
 */
function Row({ call, index, now, running, scale, names, began }) {
  if (!call) return html`<span role="gridcell" class="c-number">${index + 1}</span><span role="gridcell" class="loading">loading</span>`;
  const [symbol, words, kind] = outcome(call, running);
  const ms = taken(call, now, running);
  const [start, end] = scale;
  const isBefore = call.started_ms + (ms ?? 0) < start; // only initialize, which waits for the server to start
  const left = Math.max(0, ((call.started_ms - start) / (end - start)) * 100);
  const width = Math.max(0, Math.min(((call.started_ms + (ms ?? 0) - start) / (end - start)) * 100, 100) - left);
  const findings = call.findings
    ? html`<span class=${`mark ${call.severity}`} title=${`${plural(call.findings, "finding")}, the worst: ${call.severity}`}>${SEVERITY_MARKS[call.severity ?? "info"]}${call.worst_findings}${call.findings > call.worst_findings ? "+" : ""}<span class="hidden"> ${call.severity}</span></span>`
    : null;
  return html`
    <span role="gridcell" class="c-number">${call.number}</span>
    <span role="gridcell" class="c-time" title=${`${localTime(began + call.started_ms)}; ${utcTime(began + call.started_ms)}`}>${offset(call.started_ms)}</span>
    <span role="gridcell" class=${`c-outcome ${kind}`}><span class="words"><span aria-hidden="true">${symbol}</span> ${words}</span> ${findings}</span>
    <span role="gridcell" class="c-method">${names.get(call.session) ? html`<span class="session" title=${`session ${names.get(call.session)}`}>${names.get(call.session)?.slice(0, 4)} </span>` : null}<span class="direction" aria-label=${call.sender === "client" ? "from the client" : "from the server"}>${call.sender === "client" ? "→" : "←"}</span> ${call.parent ? html`<span class="inner" aria-label=${`inside call ${call.parent}`}>↳</span>` : null}${visible(title(call))}</span>
    <span role="gridcell" class=${`c-preview${call.cause || kind === "bad" ? " lost" : ""}`}><span class="words" title=${kind === "bad" && said(call) ? said(call) : undefined}><span class="arguments">${visible(call.arguments)}</span>${said(call) ? html` <span class=${`result ${kind}`}>→ ${visible(said(call))}</span>` : null}${call.intervention ? html` <span class="intervention">(${call.intervention})</span>` : null}</span>${steps(call) ? html`<span class="steps" title=${`the last progress: ${call.progress}`}>${visible(steps(call))}</span>` : null}<span class="size" title="request and answer together">${size(call.request_bytes + call.answer_bytes)}</span></span>
    <span role="gridcell" class=${`c-latency ${takenClass(call, ms, running)}`}>${duration(ms)}</span>
    <span role="gridcell" class="c-bar" title=${isBefore ? `${duration(ms)}, before the line of time` : undefined}>${isBefore ? html`<span class="before" aria-hidden="true">‹</span>` : html`<span class=${`bar ${kind === "bad" ? kind : takenClass(call, ms, running) || kind} ${call.outcome}`} style=${{ left: `min(${left}%, calc(100% - 2px))`, width: `max(2px, ${width}%)` }}></span>`}</span>`;
}

/**
 * @param {object} props
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>, small?: boolean) => void} props.go
 * @param {number | null} props.total null while the filter is applied
 * @param {number} props.all
 * @param {string} props.error
 * @param {string} props.shown the filter whose rows are shown
 * @param {boolean} props.following
 * @param {(following: boolean) => void} props.onFollowing
 * @param {boolean} props.running
 */
function FilterBar({ place, go, total, all, error, shown, following, onFollowing, running }) {
  const typed = useTyped(place.filter, (filter, isTyping) => go({ filter, call: 0 }, isTyping && place.filter !== ""));
  /** @param {string} term */
  const isOn = (term) => ` ${place.filter} `.includes(` ${term} `);
  /** @param {string} term */
  const toggle = (term) => {
    const next = isOn(term) ? ` ${place.filter} `.replace(` ${term} `, " ") : `${place.filter} ${term}`;
    go({ filter: next.trim(), call: 0 });
  };
  const chips = [["status:error", "failed"], ["status:unanswered", "unanswered"], ["latency:>1s", "over 1 s"], ["rule:*", "with findings"]];
  return html`
    <form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      typed.submit();
    }}>
      <label for="filter">Filter</label>
      <input id="filter" value=${typed.text} spellcheck=${false} autocomplete="off"
        placeholder='tool:search* status:error latency:>2s rule:PROTO-* "text"'
        aria-invalid=${error ? "true" : "false"} aria-describedby="filter-state"
        onInput=${typed.onInput} onBlur=${typed.onBlur}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            typed.clear();
            go({ filter: "", call: 0 });
            /** @type {HTMLElement} */ (document.querySelector(".grid"))?.focus();
          }
        }} />
      ${chips.map(([term, words]) => html`<button type="button" class="chip" aria-pressed=${isOn(term)} onClick=${() => toggle(term)}>${words}</button>`)}
      ${running ? html`<button type="button" class="chip" aria-pressed=${following} onClick=${() => onFollowing(!following)}>follow</button>` : null}
      <span id="filter-state" class=${error ? "problem" : "count"} role="status">${error ? html`${error} <span class="count">Shown: ${shown ? html`<code>${shown}</code>` : "all rows"}.</span>` : (total === null ? "filtering…" : place.filter ? `${total.toLocaleString("en")} of ${plural(all, "row")}` : plural(total, "row"))}</span>
    </form>`;
}
