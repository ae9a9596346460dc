// @ts-check
/** Numbers, times and recorded text as people read them. */
import { html } from "./preact.js";

/**
 * Return a time with three digits, as `duration` of `mcpproxy/base/style.py` does; a test compares them.
 *
 * @param {number | null | undefined} ms
 */
export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 0.9995) return `${threeDigits(ms * 1000)} µs`;
  if (ms < 999.5) return `${threeDigits(ms)} ms`;
  if (ms < 60_000) return `${threeDigits(ms / 1000)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  return `${Math.floor(seconds / 3600)}h${two(Math.floor((seconds % 3600) / 60))}m`;
}

/** @param {number} value */
function threeDigits(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(bytes < 10_000 ? 1 : 0)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** @param {number} ms since the start of the recording */
export function offset(ms) {
  if (ms < 59_999.5) return (ms / 1000).toFixed(3);
  // Round before dividing, so that no part becomes 60.
  const tenths = Math.round(ms / 100);
  const minutes = Math.floor(tenths / 600);
  if (minutes < 60) return `${minutes}:${((tenths % 600) / 10).toFixed(1).padStart(4, "0")}`;
  const seconds = Math.floor(tenths / 10);
  return `${Math.floor(seconds / 3600)}:${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${String(seconds % 60).padStart(2, "0")}`;
}

/** @param {number} number */
function two(number) {
  return String(number).padStart(2, "0");
}

/** Return a time as the clock of this computer shows it. @param {number} ms since 1970 */
export function localTime(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** @param {number} ms since 1970 */
export function utcTime(ms) {
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A time by the clock of this computer; the pointer over it shows it in UTC. @param {{ms: number}} props since 1970 */
export function LocalTime({ ms }) {
  return html`<time datetime=${new Date(ms).toISOString()} title=${utcTime(ms)}>${localTime(ms)}</time>`;
}

/**
 * Return the names of the sessions by their numbers; no names if there is only one session.
 *
 * @param {import("./types.js").Summary["sessions"]} sessions
 * @returns {Map<number, string>}
 */
export function sessionNames(sessions) {
  return new Map(sessions.length > 1 ? sessions.map((one) => [one.number, one.name]) : []);
}

/** Return a value in a filter that fits this text alone. @param {string} text */
export function quoted(text) {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/** @param {number} count @param {string} noun */
export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

// Control characters except tabs and line ends, direction marks, and characters without width: with them a
// recorded text could hide or reorder parts of itself.
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

// What is hidden in a valid emoji sequence stays, because without it the sequence falls apart: joiners between
// pictographs, the selector after one or before a keycap, the tags of a flag. `mcpproxy/base/visible.py` keeps the same.
const EMOJI = "(?:[\\u{1f000}-\\u{1fbff}]|(?![\\0-\\x7f])[\\p{So}\\p{Sm}])";
const TAGS = "[\\u{e0030}-\\u{e0039}\\u{e0061}-\\u{e007a}]{3,6}\\u{e007f}";
const EMOJI_PART = new RegExp(
  `\\u200d(?<=${EMOJI}\\ufe0f?\\u200d)(?=${EMOJI})|\\ufe0f(?<=(?:${EMOJI}|[\\u203c\\u2049\\u2139\\u3030])\\ufe0f|[#*0-9]\\ufe0f(?=\\u20e3))|${TAGS}(?<=\\u{1f3f4}${TAGS})`,
  "gu",
);

/**
 * Return recorded text in which hidden characters are replaced by marked escapes, those of JSON as in a terminal.
 *
 * @param {string} text
 * @returns {any} nodes for htm
 */
export function visible(text) {
  const nodes = [];
  let end = 0;
  /** @type {Set<number> | undefined} */
  let kept;
  for (const match of text.matchAll(HIDDEN)) {
    kept ??= new Set([...text.matchAll(EMOJI_PART)].flatMap((part) => Array.from(part[0], (_, at) => part.index + at * (part[0].length > 1 ? 2 : 1))));
    if (kept.has(match.index)) continue;
    if (match.index > end) nodes.push(text.slice(end, match.index));
    const escape = match[0].split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    nodes.push(html`<span class="hidden-character" title="a character without a glyph">${escape.join("")}</span>`);
    end = match.index + match[0].length;
  }
  if (!nodes.length) return text;
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}

/**
 * The words are those of `mcpproxy/judge/session/outcomes.py`; a test compares them. The class is the colour, the same
 * wherever a call is shown: what fails a call is `bad`, what waits, is slow or was given up is `warn`.
 * @type {Record<string, [string, string, string]>} outcome -> symbol, words, class
 */
export const OUTCOMES = {
  ok: ["✓", "ok", "good"],
  "tool-error": ["✗", "tool error", "bad"],
  "rpc-error": ["✗", "error", "bad"],
  "http-error": ["✗", "HTTP error", "bad"],
  "input-required": ["↻", "input required", "note"],
  unanswered: ["…", "unanswered", "bad"],
  cancelled: ["⊘", "cancelled", "warn"],
  refused: ["⛔", "refused by mcpproxy", "bad"],
  declined: ["⊖", "declined", "plain"],
  none: ["·", "", "plain"],
  unreadable: ["?", "answered unreadably", "warn"],
};

/** A call without an answer while the recording is being made. @type {[string, string, string]} */
const WAITING = ["…", "waiting", "warn"];

/** Answers that took at least so long are slow. */
const SLOW_MS = 1000;

/**
 * @param {string} name an outcome
 * @param {boolean} running whether an answer may still come
 * @returns {[string, string, string]} symbol, words, class
 */
export function state(name, running) {
  return name === "unanswered" && running ? WAITING : (OUTCOMES[name] ?? ["?", name, "plain"]);
}

/** Return the class of a number of calls. @param {string} lost failed, or an outcome @param {boolean} running */
export function lossClass(lost, running) {
  return lost === "failed" ? "bad" : state(lost, running)[2];
}

/** @type {Record<string, string>} */
export const SEVERITY_MARKS = { error: "✗", warning: "▲", info: "ℹ" };

/**
 * How many findings there are, in the words of `mcpproxy list`: "1 error, 6 info". Nothing if there are none.
 *
 * @param {{counts: Partial<Record<import("./types.js").Severity, number>> | null}} props
 */
export function Tally({ counts }) {
  const { error = 0, warning = 0, info = 0 } = counts ?? {};
  const told = [["error", error && plural(error, "error")], ["warning", warning && plural(warning, "warning")], ["info", info && `${info.toLocaleString("en")} info`]].filter(([, words]) => words);
  return told.length ? html`<span title="findings">${told.map(([severity, words], index) => html`${index ? ", " : ""}<span class=${`mark ${severity}`}>${words}</span>`)}</span>` : null;
}

/**
 * @param {import("./types.js").Call} call
 * @param {boolean} [running] whether the recording is still being made
 * @returns {[string, string, string]} symbol, words, class
 */
export function outcome(call, running = false) {
  const [symbol, words, kind] = state(call.outcome, running && !call.closed);
  // A row without a method has its kind as title.
  if (!words) return [symbol, call.method || call.target ? call.kind : "", kind];
  if (call.error_code === null) return [symbol, words, kind];
  return [symbol, `${call.outcome === "http-error" ? "HTTP" : words} ${call.error_code}`, kind];
}

/**
 * Return a cause without the words of the outcome that stand beside it: it may begin with them.
 *
 * @param {string} words
 * @param {string} cause
 */
export function beyond(words, cause) {
  const rest = cause.slice(words.length);
  return words && cause.startsWith(words) && /^([:. ]|$)/.test(rest) ? rest.replace(/^[:. ]+/, "") : cause;
}

/**
 * Return who talked in a session, and by which revision. A client alone has asked for the revision: no server has
 * said its name, as where none answered.
 *
 * @param {import("./types.js").Summary["sessions"][number]} one
 * @param {boolean} running
 */
export function peers({ client, server, revision, protocol }, running) {
  if (!server && !client) return revision ? `${protocol.toUpperCase()} ${revision}` : "";
  if (server || !client) return `${client ? `${client} → ` : ""}${server}${revision ? `, ${revision}` : ""}`;
  return `${client}${revision ? ` asked for ${protocol.toUpperCase()} ${revision}` : ""}; no server has told its name${running ? " yet" : ""}`;
}

/** @param {import("./types.js").Call} call */
export function title(call) {
  if (call.kind === "notification") return call.method.replace(/^notifications\//, "");
  if (call.target) return `${call.method.split("/")[0] === "tools" ? "" : `${call.method} `}${call.target}`;
  return call.method || call.kind;
}

/**
 * Return what the row of a call says of its result: the result, or how far it came, and why it has none.
 *
 * @param {import("./types.js").Call} call
 */
export function said(call) {
  return [isFar(call) && call.cause ? "" : call.said, call.cause].filter(Boolean).join("; ");
}

/**
 * Return the numbers of the last progress, "2 of 2", where they are not in what `said` returns.
 *
 * @param {import("./types.js").Call} call
 */
export function steps(call) {
  return isFar(call) && !call.cause ? "" : call.progress.split(", ", 1)[0];
}

/** Whether nothing is known of the result but how far the call came. @param {import("./types.js").Call} call */
function isFar(call) {
  return call.progress !== "" && call.said === call.progress;
}

/**
 * Return how long a call took, or how long it has waited without an answer, in milliseconds.
 *
 * @param {import("./types.js").Call} call
 * @param {number} now milliseconds since the start of the recording
 * @param {boolean} running
 */
export function taken(call, now, running) {
  if (call.latency_ms !== null) return call.latency_ms;
  if (call.outcome !== "unanswered") return call.waited_ms;
  return running && !call.closed ? Math.max(now - call.started_ms, call.waited_ms ?? 0) : call.waited_ms || null; // of 0, nothing is known
}

/**
 * Return the class of what `taken` says of a call.
 *
 * @param {import("./types.js").Call} call
 * @param {number | null} ms
 * @param {boolean} running
 */
export function takenClass(call, ms, running) {
  if (call.outcome === "unanswered") return outcome(call, running)[2];
  return (ms ?? 0) >= SLOW_MS ? "warn" : "";
}
