// @ts-check
/** A search of the calls of all recordings: the box for it, and the rows that were found. */
import { href } from "./address.js";
import { get } from "./api.js";
import { SEVERITY_MARKS, beyond, duration, outcome, plural, said, taken, title, visible } from "./format.js";
import { html, useEffect, useState } from "./preact.js";
import { useTyped } from "./throttle.js";

/**
 * @typedef {object} Answers The answers of one search so far.
 * @property {string} find
 * @property {import("./types.js").FoundRows["rows"]} rows
 * @property {import("./types.js").FoundRows | null} last null until the first answer
 * @property {number} unreadable
 */

/** @param {string} find @returns {Answers} */
const none = (find) => ({ find, rows: [], last: null, unreadable: 0 });

/** The answers that are shown, or were: who comes back from a call finds them again. */
let kept = none("");

/**
 * @param {object} props
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>, small?: boolean) => void} props.go
 * @param {() => void} props.onAsked called after the address has changed, or would be the same
 */
export function SearchBox({ place, go, onAsked }) {
  /** @param {string} find @param {boolean} isTyping */
  const search = (find, isTyping) => go({ view: "search", find, filter: "", call: 0, other: "" }, isTyping && place.view === "search");
  const typed = useTyped(place.find, search);
  return html`<form class="find" role="search" aria-label="All recordings" onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    kept = none("");
    if (!typed.text.trim() && place.view !== "search") search("", false);
    typed.submit();
    onAsked();
  }}>
    <input id="find" type="search" value=${typed.text} spellcheck=${false} autocomplete="off" aria-label="Search all recordings" placeholder="search all recordings (a)"
      onInput=${typed.onInput} onBlur=${typed.onBlur}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "ArrowDown" && event.key !== "Escape") return;
        event.preventDefault();
        /** @type {HTMLElement | null} */ (document.querySelector(event.key === "Escape" ? ".found, .grid, main" : ".found a"))?.focus();
      }} />
  </form>`;
}

/**
 * @param {object} props
 * @param {import("./types.js").Recording[]} props.recordings
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Search({ recordings, place, go }) {
  const [answers, setAnswers] = useState(kept.find === place.find ? kept : none(place.find));
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const [leaving] = useState(() => new AbortController());
  useEffect(() => () => leaving.abort(), []);
  /** @param {Answers} before */
  const search = async (before) => {
    setBusy(true);
    try {
      /** @type {import("./types.js").FoundRows} */
      const last = await get("/api/search", { filter: before.find, ...before.last?.next }, leaving.signal);
      setError("");
      kept = { find: before.find, rows: [...before.rows, ...last.rows], last, unreadable: before.unreadable + last.unreadable };
      setAnswers(kept);
    } catch (problem) {
      if (leaving.signal.aborted) return;
      setError(/** @type {Error} */ (problem).message);
    }
    setBusy(false);
  };
  useEffect(() => {
    if (place.find && !answers.last) search(answers);
  }, []);
  if (!place.find) return html`<p class="empty">Words that calls have in their bytes, or a filter, as in the filter of the calls: <code>status:error</code>, <code>tool:search* latency:>2s</code>.</p>`;
  const problem = error ? html`<p class="problem" role="alert">${error}</p>` : null;
  const { last, rows } = answers;
  if (problem && !last) return problem;
  const byId = new Map(recordings.map((one) => [one.id, one]));
  /** @type {Map<string, typeof rows>} */
  const grouped = new Map();
  for (const row of rows) {
    const found = grouped.get(row.recording);
    if (found) found.push(row);
    else grouped.set(row.recording, [row]);
  }
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const links = /** @type {HTMLElement[]} */ ([.../** @type {HTMLElement} */ (event.currentTarget).querySelectorAll("a")]);
    event.preventDefault();
    event.stopPropagation();
    links[Math.max(0, links.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step)]?.focus();
  };
  return html`<section class="page found" tabindex="-1" aria-label="Found calls" onKeyDown=${onKeyDown}>
    <h2 class="hidden">Found calls</h2>
    <p role="status">${last ? searched(answers) : "searching…"}</p>
    ${[...grouped].map(([id, found]) => html`<h3 key=${id}>${visible(byId.get(id)?.label ?? "a recording that is gone")} <span class="count">${when(byId.get(id))}</span></h3>
      <ul>${found.map((row) => ("whole" in row
        ? html`<li key="whole"><${OfSession} row=${row} go=${go} /></li>`
        : "ended" in row
        ? html`<li key="ended"><${NotBegun} row=${row} go=${go} /></li>`
        : html`<li key=${row.number}><${Found} call=${row} running=${byId.get(id)?.running ?? false} go=${go} /></li>`))}</ul>`)}
    ${problem}
    ${last?.next ? html`<p><button type="button" disabled=${isBusy} onClick=${() => search(answers)}>${isBusy ? "searching…" : "Search on"}</button></p>` : null}
  </section>`;
}

/** Return how much was found, and how far the search came. @param {Answers} answers */
function searched({ rows, last, unreadable }) {
  const { recordings, next } = /** @type {import("./types.js").FoundRows} */ (last);
  const where = next ? `${last?.searched.toLocaleString("en")} of ${plural(recordings, "recording")} searched so far` : `all ${plural(recordings, "recording")} searched`;
  const unread = unreadable ? `, ${unreadable} could not be read, or not whole` : "";
  const sum = rows.reduce((count, row) => count + ("whole" in row ? row.whole : 0), 0);
  const failures = rows.filter((row) => "ended" in row).length;
  const calls = rows.filter((row) => !("whole" in row) && !("ended" in row)).length;
  const found = [calls && plural(calls, "row"), failures && `${plural(failures, "server")} that failed before any message`, sum && `${plural(sum, "finding")} about a whole session`].filter(Boolean).join(", ");
  return `${found || (next ? "nothing found yet" : "no call fits")}; ${where}${unread}`;
}

/** @param {import("./types.js").Recording | undefined} one */
function when(one) {
  return one?.started_ms ? new Date(one.started_ms).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }) : "";
}

/** @param {{target: import("./address.js").Place, go: (change: Partial<import("./address.js").Place>) => void, children?: any}} props */
function Link({ target, go, children }) {
  return html`<a href=${href(target)} onClick=${(/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(target);
  }}>${children}</a>`;
}

/** @param {{worst: import("./types.js").Worst}} props */
function WorstOf({ worst }) {
  return html`<span class="why"><span class=${`mark ${worst.severity}`}><span aria-hidden="true">${SEVERITY_MARKS[worst.severity]}</span> ${worst.severity}</span> ${visible(worst.rule)}: ${visible(worst.message)}</span>`;
}

/** @param {{row: import("./types.js").FoundFailure, go: (change: Partial<import("./address.js").Place>) => void}} props */
function NotBegun({ row, go }) {
  return html`<${Link} target=${{ recording: row.recording, view: "calls", filter: "", order: "", call: 0, other: "", find: "" }} go=${go}>
    <span class="whole bad"><span aria-hidden="true">✗</span> ${visible(row.ended)}</span>
  <//>`;
}

/** @param {{row: import("./types.js").FoundSession, go: (change: Partial<import("./address.js").Place>) => void}} props */
function OfSession({ row, go }) {
  return html`<${Link} target=${{ recording: row.recording, view: "findings", filter: "", order: "", call: 0, other: "", find: "" }} go=${go}>
    <span class="whole">${plural(row.whole, "finding")} about the whole session</span>
    <${WorstOf} worst=${row.worst} />
  <//>`;
}

/** @param {{call: import("./types.js").FoundCall, running: boolean, go: (change: Partial<import("./address.js").Place>) => void}} props */
function Found({ call, running, go }) {
  const [symbol, words, kind] = outcome(call, running);
  const why = beyond(words, call.cause);
  const target = { recording: call.recording, view: "calls", filter: "", order: "", call: call.number, other: "", find: "" };
  return html`<${Link} target=${target} go=${go}>
    <span class="count">#${call.number}</span>
    <span class=${kind}><span aria-hidden="true">${symbol}</span> ${words}</span>
    <span>${visible(title(call))}</span>
    <span class="preview"><span class="count">${visible(call.arguments)}</span>${!call.cause && said(call) ? html` <span>→ ${visible(said(call))}</span>` : null}</span>
    <span class="count">${duration(taken(call, 0, false))}</span>
    ${why ? html`<span class=${`why ${kind}`}>${visible(why)}</span>` : null}
    ${call.worst ? html`<${WorstOf} worst=${call.worst} />` : null}
    ${call.found.length ? html`<span class="passage"><span class="count">${visible(call.found[0])}</span><mark>${visible(call.found[1])}</mark><span class="count">${visible(call.found[2])}</span></span>` : null}
  <//>`;
}
