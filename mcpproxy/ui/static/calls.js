// @ts-check
/** The list of calls with its filter, a waterfall of the visible rows, and the detail of the selected call. */
import { get, subscribe } from "./api.js";
import { CallDetail } from "./detail.js";
import { SEVERITY_MARKS, duration, offset, outcome, plural, sessionNames, taken, title, visible } from "./format.js";
import { html, useEffect, useMemo, useRef, useState } from "./preact.js";
import { RowCache } from "./row_cache.js";
import { VirtualList } from "./virtual_list.js";

const TICK_MS = 250;

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./types.js").Summary["sessions"]} props.sessions
 * @param {import("./live.js").Live} props.live
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Calls({ summary, sessions, live, place, go }) {
  const id = summary.recording.id;
  const [total, setTotal] = useState(/** @type {number | null} */ (null));
  const [error, setError] = useState("");
  const [, setVersion] = useState(0);
  const [progress, setProgress] = useState(/** @type {{done: number, total: number, found: number} | null} */ (null));
  const [selected, setSelected] = useState(-1);
  const [following, setFollowing] = useState(false);
  const [range, setRange] = useState([0, 0]);
  const [isWide, setWide] = useState(false);
  const redraw = () => setVersion((version) => version + 1);
  const cache = useMemo(
    () => new RowCache(id, place.filter, redraw, (fault) => setError(fault.message)),
    [id, place.filter],
  );
  useEffect(() => () => cache.close(), [cache]);

  // Get the number of rows that pass the filter, and the position of the call in the address among them. A filter
  // with free text reads the whole recording, so the server applies a filter step by step first.
  useEffect(() => {
    let isCurrent = true;
    setError("");
    setTotal(null);
    setProgress(null);
    const query = { filter: place.filter, call: place.call || undefined };
    /** @param {{total: number, position: number | null}} answer */
    const show = (answer) => {
      if (!isCurrent) return;
      setTotal(answer.total);
      setSelected(answer.position ?? -1);
    };
    const locate = () => {
      if (!place.filter) {
        show({ total: live.rows, position: place.call && place.call <= live.rows ? place.call - 1 : null });
        return;
      }
      get(`/api/recordings/${id}/position`, query)
        .then(show)
        .catch((fault) => {
          if (!isCurrent) return;
          setError(fault.message);
          setTotal(0);
        });
    };
    const end = place.filter
      ? subscribe(`/api/recordings/${id}/search`, query, {
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
        })
      : () => {};
    if (!place.filter) locate();
    return () => {
      isCurrent = false;
      end();
    };
  }, [id, place.filter]);

  // Select the call in the address after a link or the browser's history has changed the address.
  useEffect(() => {
    if (total === null || cache.row(selected)?.number === place.call) return;
    if (!place.call) {
      setSelected(-1);
      return;
    }
    get(`/api/recordings/${id}/position`, { filter: place.filter, call: place.call }).then((answer) => {
      if (answer.position !== null) setSelected(answer.position);
    });
  }, [place.call]);

  // Read the rows that were added or have changed while the recording runs.
  useEffect(() => {
    if (!live.version || total === null || (live.running && !live.first)) return;
    if (!place.filter) {
      setTotal(live.rows);
      // At the end, calls without an answer have waited until then, whether or not their rows have changed.
      cache.changed(live.running ? live.first - 1 : 0);
      return;
    }
    get(`/api/recordings/${id}/position`, { filter: place.filter }).then((answer) => {
      setTotal(answer.total);
      cache.changed(Math.max(0, Math.min(total, answer.total) - 200));
    });
  }, [live.version, total === null]);

  const rows = [];
  for (let index = range[0]; index < range[1]; index += 1) {
    const call = cache.row(index);
    if (call) rows.push(call);
  }
  const isWaiting = live.running && rows.some((call) => call.outcome === "unanswered");
  useEffect(() => {
    if (!isWaiting) return undefined;
    const timer = setInterval(redraw, TICK_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);
  const now = live.now();
  const names = sessionNames(sessions);
  const scale = waterfall(rows, now);

  /** @param {number} index */
  const select = (index) => {
    setSelected(index);
    const call = cache.row(index);
    if (call) go({ call: call.number });
  };
  // Put a selected row into the address once it is loaded.
  const call = cache.row(selected);
  useEffect(() => {
    if (call && call.number !== place.call && selected >= 0) go({ call: call.number });
  }, [call?.number]);

  const open = () => document.querySelector(/** @type {"section"} */ (".detail"))?.focus();
  const head = html`
    <span role="columnheader" class="c-number">#</span>
    <span role="columnheader" class="c-time">time</span>
    <span role="columnheader" class="c-outcome">outcome</span>
    <span role="columnheader" class="c-method">method, target</span>
    <span role="columnheader" class="c-preview">arguments → result</span>
    <span role="columnheader" class="c-latency">latency</span>
    <span role="columnheader" class="c-bar" title="the rows in sight on one line of time">waterfall</span>`;
  return html`
    <div class="calls">
      <${FilterBar} place=${place} go=${go} total=${total} all=${live.rows} error=${error}
        following=${following} onFollowing=${setFollowing} running=${live.running} />
      ${progress ? html`<${SearchProgress} progress=${progress} onCancel=${() => go({ filter: "" })} />` : null}
      <div class=${`split${place.call ? ` with-detail${isWide ? " wide" : ""}` : ""}`}>
        ${total === 0
          ? html`<p class="empty">${error ? "This filter cannot be read." : place.filter ? "No call fits this filter." : live.running ? "Nothing was sent yet. Calls appear here when they are made." : "This recording has no messages."}</p>`
          : html`<${VirtualList} label="Calls" total=${total ?? 0} columns=${7} head=${head} selected=${selected}
              onSelect=${select} onOpen=${open} onShown=${(/** @type {number} */ first, /** @type {number} */ last) => {
                setRange([first, last]);
                cache.show(first, last);
              }}
              following=${following} onFollowing=${setFollowing}
              row=${(/** @type {number} */ index) => html`<${Row} call=${cache.row(index)} index=${index} now=${now} running=${live.running} scale=${scale} names=${names} />`} />`}
        ${place.call ? html`<${CallDetail} key=${`${id}/${place.call}`} summary=${summary} sessions=${sessions} live=${live} place=${place} go=${go} isWide=${isWide} setWide=${setWide} />` : null}
      </div>
    </div>`;
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
 * Of each call it covers at most the first minute.
 *
 * @param {import("./types.js").Call[]} rows
 * @param {number} now
 * @returns {[number, number]}
 */
function waterfall(rows, now) {
  if (!rows.length) return [0, 1];
  const start = Math.min(...rows.map((call) => call.started_ms));
  const ends = rows.map((call) => call.started_ms + Math.min(taken(call, now, false) ?? 0, 60_000));
  return [start, Math.max(...ends, start + 0.001)];
}

/**
 * @param {{call: import("./types.js").Call | undefined, index: number, now: number, running: boolean, scale: [number, number], names: Map<number, string>}} props
 */
function Row({ call, index, now, running, scale, names }) {
  if (!call) return html`<span role="gridcell" class="c-number">${index + 1}</span><span role="gridcell" class="loading">loading</span>`;
  const [symbol, words, kind] = outcome(call, running);
  const ms = taken(call, now, running);
  const [start, end] = scale;
  const left = ((call.started_ms - start) / (end - start)) * 100;
  const width = Math.min(((ms ?? 0) / (end - start)) * 100, 100 - left);
  const findings = call.findings
    ? html`<span class=${`mark ${call.severity}`} title=${plural(call.findings, "finding")}>${SEVERITY_MARKS[call.severity ?? "info"]}${call.findings}<span class="hidden"> ${call.severity}</span></span>`
    : null;
  return html`
    <span role="gridcell" class="c-number">${call.number}</span>
    <span role="gridcell" class="c-time">${offset(call.started_ms)}</span>
    <span role="gridcell" class=${`c-outcome ${kind}`}><span class="words"><span aria-hidden="true">${symbol}</span> ${words || call.kind}</span> ${findings}</span>
    <span role="gridcell" class="c-method">${names.get(call.session) ? html`<span class="session" title=${`session ${names.get(call.session)}`}>${names.get(call.session)?.slice(0, 4)} </span>` : null}<span class="direction" aria-label=${call.sender === "client" ? "from the client" : "from the server"}>${call.sender === "client" ? "→" : "←"}</span> ${call.parent ? html`<span class="inner" aria-label=${`inside call ${call.parent}`}>↳</span>` : null}${visible(title(call))}</span>
    <span role="gridcell" class="c-preview"><span class="arguments">${visible(call.arguments)}</span>${call.result || call.progress ? html` <span class=${`result ${kind}`}>→ ${visible(call.result || call.progress)}</span>` : null}${call.intervention ? html` <span class="intervention">(${call.intervention})</span>` : null}</span>
    <span role="gridcell" class=${`c-latency${call.outcome === "unanswered" ? " waiting" : ""}`}>${duration(ms)}</span>
    <span role="gridcell" class="c-bar"><span class=${`bar ${kind}`} style=${{ left: `${left}%`, width: `max(2px, ${width}%)` }}></span></span>`;
}

/**
 * @param {object} props
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {number | null} props.total
 * @param {number} props.all
 * @param {string} props.error
 * @param {boolean} props.following
 * @param {(following: boolean) => void} props.onFollowing
 * @param {boolean} props.running
 */
function FilterBar({ place, go, total, all, error, following, onFollowing, running }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [text, setText] = useState(place.filter);
  useEffect(() => setText(place.filter), [place.filter]);
  const apply = () => go({ filter: text.trim(), call: 0 });
  /** @param {string} term */
  const toggle = (term) => {
    const terms = place.filter.split(/\s+/).filter(Boolean);
    const next = terms.includes(term) ? terms.filter((one) => one !== term) : [...terms, term];
    go({ filter: next.join(" "), call: 0 });
  };
  const chips = [["status:error", "failed"], ["status:unanswered", "unanswered"], ["latency:>1s", "over 1 s"], ["rule:*", "with findings"]];
  return html`
    <form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      apply();
    }}>
      <label for="filter">Filter</label>
      <input id="filter" ref=${input} value=${text} spellcheck=${false} autocomplete="off"
        placeholder='tool:search* status:error latency:>2s rule:PROTO-* "text"'
        aria-invalid=${error ? "true" : "false"} aria-describedby="filter-state"
        onInput=${(/** @type {any} */ event) => setText(event.target.value)}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            setText("");
            go({ filter: "", call: 0 });
            /** @type {HTMLElement} */ (document.querySelector(".grid"))?.focus();
          }
        }} />
      ${chips.map(([term, words]) => html`<button type="button" class="chip" aria-pressed=${place.filter.split(/\s+/).includes(term)} onClick=${() => toggle(term)}>${words}</button>`)}
      ${running ? html`<button type="button" class="chip" aria-pressed=${following} onClick=${() => onFollowing(!following)}>follow</button>` : null}
      <span id="filter-state" class=${error ? "problem" : "count"} role="status">${error || (total === null ? "filtering…" : place.filter ? `${total.toLocaleString("en")} of ${plural(all, "row")}` : plural(total, "row"))}</span>
    </form>`;
}
