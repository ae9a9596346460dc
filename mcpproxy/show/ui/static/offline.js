// @ts-check
/** Answers the requests of an exported page, in place of the server, from the recording in the page. */
import { FAILED, NOT_ANSWERED, lanesOf } from "./lanes.js";
import { ordered, parseFilter, passes } from "./offline_filter.js";

/** @typedef {import("./offline_filter.js").OfflineCall} OfflineCall */

const BARS = 1500;
const POINTS = 20_000;

/** Return the JSON value in an element, whose text is the gzipped value in base64. @param {string} id of the element @returns {Promise<any>} */
async function unpacked(id) {
  const text = /** @type {HTMLElement} */ (document.getElementById(id)).textContent ?? "";
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** @type {Promise<{summary: any, calls: OfflineCall[], findings: any, tools: any, stats: any, prompt: any, sequence: import("./types.js").Sequence, per_chunk: number, chunks: number}>} */
const recording = unpacked("recording");
/** @type {Map<number, Promise<any[]>>} */
const chunks = new Map();
/** @type {Map<string, OfflineCall[]>} */
const filtered = new Map();

/** @param {number} number */
function chunk(number) {
  const kept = chunks.get(number) ?? unpacked(`chunk-${number}`);
  chunks.delete(number);
  chunks.set(number, kept);
  for (const oldest of [...chunks.keys()].slice(0, Math.max(0, chunks.size - 8))) chunks.delete(oldest);
  return kept;
}

/**
 * @param {string} filter
 * @param {(progress: {done: number, total: number, found: number}) => void} [onProgress]
 * @param {() => boolean} [isCancelled]
 */
async function select(filter, onProgress, isCancelled) {
  const { calls, per_chunk, chunks: count } = await recording;
  const known = filtered.get(filter);
  if (known) return known;
  const terms = parseFilter(filter);
  let found = terms.length ? calls.filter((call) => passes(terms, call)) : calls;
  for (const term of terms.filter((one) => one.key === "text")) {
    const words = term.values.map((value) => value.toLowerCase());
    const left = new Set(found.map((call) => call.number));
    const having = new Set();
    for (let number = 0; number < count; number += 1) {
      if (isCancelled?.()) return [];
      onProgress?.({ done: number, total: count, found: having.size });
      const first = number * per_chunk + 1;
      if (![...left].some((row) => row >= first && row < first + per_chunk)) continue;
      for (const detail of await chunk(number)) {
        const texts = detail.parts.filter((/** @type {any} */ part) => !part.row || part.row === detail.call.number).map((/** @type {any} */ part) => `${part.text ?? ""} ${part.fields.flat().join(" ")}`.toLowerCase());
        if (words.some((word) => texts.some((/** @type {string} */ text) => text.includes(word)))) having.add(detail.call.number);
      }
    }
    found = found.filter((call) => having.has(call.number) !== term.negated);
  }
  filtered.set(filter, found);
  return found;
}

/**
 * @param {string} path
 * @param {Record<string, any>} query
 * @returns {Promise<any>}
 */
export async function answer(path, query) {
  const { summary, calls, findings, tools, stats, prompt, sequence, per_chunk } = await recording;
  const [, , kind, , what, number, more] = path.split("/");
  if (path === "/api/recordings") return { recordings: [summary.recording], runs: [], below: { folders: [], more: 0 } };
  if (kind !== "recordings") throw new Error("This page holds one recording; mcpproxy ui shows and compares more.");
  if (!what) return summary;
  if (what === "findings") return findings;
  if (what === "tools") return tools;
  if (what === "stats") return stats;
  if (what === "prompt") return prompt ?? { model: null };
  if (what === "calls" && number) {
    const row = Number(number);
    const detail = (await chunk(Math.floor((row - 1) / per_chunk)))[(row - 1) % per_chunk];
    if (!detail) throw new Error(`There is no call ${number}.`);
    if (more === "prompt") return { words: detail.model_saw ?? [], recording: "" };
    if (more !== "copy") return detail;
    if (query.form !== "json") throw new Error("A command needs the recording itself.");
    const wanted = detail.parts.filter((/** @type {any} */ part) => part.role === "request" || part.role === "answer");
    return { text: wanted.map((/** @type {any} */ part) => part.text).join("\n") };
  }
  const found = ordered(await select(query.filter ?? ""), query.order ?? "");
  if (what === "calls") return { start: query.start, rows: found.slice(query.start, query.start + query.limit) };
  if (what === "position") {
    const position = query.call ? found.findIndex((call) => call.number === query.call) : -1;
    return { total: found.length, position: position < 0 ? null : position };
  }
  if (what === "latencies") {
    const timed = found.filter((call) => took(call) !== null);
    const step = Math.ceil(timed.length / POINTS) || 1;
    const shown = step === 1 ? timed : slowest(timed, step);
    return {
      total: timed.length,
      unanswered: timed.filter((call) => NOT_ANSWERED.includes(call.outcome)).length,
      row: shown.map((call) => call.number),
      at_ms: shown.map((call) => call.started_ms),
      kind: shown.map((call) => (FAILED.includes(call.outcome) ? "failed" : NOT_ANSWERED.includes(call.outcome) ? call.outcome : "answered")),
      latency_ms: shown.map(took),
    };
  }
  if (what === "spans") return lanesOf(found, query.from, query.to, query.narrow, BARS);
  if (what === "sequence") {
    // The file has the diagram of its first calls.
    const numbers = new Set(found.filter((call) => call.started_ms >= query.from && call.started_ms <= query.to).map((call) => call.number));
    const drawn = sequence.arrows.filter((arrow) => numbers.has(arrow.row));
    return { ...sequence, arrows: drawn, left_out: [...numbers].filter((number) => number > calls.length - sequence.left_out).length };
  }
  throw new Error(`There is no ${path} in an exported page (${calls.length} calls).`);
}

/** Return how long a call took, or waited. @param {OfflineCall} call */
function took(call) {
  return call.latency_ms ?? call.waited_ms;
}

/** @param {OfflineCall[]} calls @param {number} step */
function slowest(calls, step) {
  const shown = [];
  for (let index = 0; index < calls.length; index += step) {
    shown.push(calls.slice(index, index + step).reduce((left, right) => ((took(right) ?? 0) > (took(left) ?? 0) ? right : left)));
  }
  return shown;
}

/**
 * Send the events of a search. An exported page has no other stream.
 *
 * @param {string} path
 * @param {Record<string, any>} query
 * @param {Record<string, (data: any) => void>} handlers
 */
export function subscribe(path, query, handlers) {
  let isCancelled = false;
  if (path.endsWith("/search")) {
    select(query.filter, (progress) => isCancelled || handlers.progress?.(progress), () => isCancelled).then(
      () => isCancelled || handlers.end?.(null),
      () => isCancelled || handlers.failed?.(null),
    );
  }
  return () => {
    isCancelled = true;
  };
}
