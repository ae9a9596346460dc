// @ts-check
/** Counts, latencies and sizes for each method and tool, and a plot of the latencies. */
import { useAnswer } from "./answer.js";
import { get, isExported } from "./api.js";
import { duration, lossClass, size, state, visible } from "./format.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { axisMarks } from "./time_axis.js";

/** @type {[string, string, (row: any) => string][]} */
const COLUMNS = [
  ["calls", "calls", (row) => row.count.toLocaleString("en")],
  ["failed", "errors", (row) => (row.errors ? row.errors.toLocaleString("en") : "")],
  ["unanswered", "unanswered", (row) => (row.unanswered ? row.unanswered.toLocaleString("en") : "")],
  ["cancelled", "cancelled", (row) => (row.cancelled ? row.cancelled.toLocaleString("en") : "")],
  ["unreadable", "unreadable", (row) => (row.unreadable ? row.unreadable.toLocaleString("en") : "")],
  ["refused", "refused", (row) => (row.refused ? row.refused.toLocaleString("en") : "")],
  ["p50", "p50_ms", (row) => latency(row, "p50")],
  ["p95", "p95_ms", (row) => latency(row, "p95")],
  ["max", "max_ms", (row) => latency(row, "max")],
  ["in", "bytes_in", (row) => size(row.bytes_in)],
  ["out", "bytes_out", (row) => size(row.bytes_out)],
  ["tokens of results", "tokens", (row) => (row.tokens ? `~${row.tokens.toLocaleString("en")}` : "")],
];

/** Return a latency, with `>` if it is how long a call without an answer waited. @param {any} row @param {string} name */
function latency(row, name) {
  return `${row.at_least.includes(name) ? ">" : ""}${duration(row[`${name}_ms`])}`;
}

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./types.js").Recording} props.recording the recording as it is now
 * @param {import("./live.js").Live} props.live
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Stats({ summary, recording, live, place, go }) {
  const [order, setOrder] = useState("calls");
  const [answer, instead] = useAnswer(`/api/recordings/${summary.recording.id}/stats`, {}, live.version);
  if (!answer) return instead;
  const member = order === "calls" ? "count" : (COLUMNS.find(([name]) => name === order) ?? COLUMNS[0])[1];
  const rows = [...answer.rows].sort((left, right) => (right[member] ?? 0) - (left[member] ?? 0));
  return html`<div class="page">
    <p class="count" id="stats-about">For each method and tool; a click on a heading sorts. ${">"} stands before the time that a call without an answer waited.</p>
    <table aria-label="Methods and tools" aria-describedby="stats-about">
      <thead><tr><th scope="col">method, target</th>${COLUMNS.map(
        ([name]) => html`<th scope="col" aria-sort=${name === order ? "descending" : "none"}><button type="button" onClick=${() => setOrder(name)}>${name}${name === order ? " ▾" : ""}</button></th>`,
      )}</tr></thead>
      <tbody>${rows.map(
        (row) => html`<tr><th scope="row"><button type="button" class="link" onClick=${() => go({ view: "calls", filter: row.filter, call: 0 })}>${visible(row.target ? `${row.method} ${row.target}` : row.method)}</button></th>${COLUMNS.map(
          ([name, , text]) => html`<td class=${lossClass(name, live.running)}>${text(row)}</td>`,
        )}</tr>`,
      )}</tbody>
    </table>
    <p class="count">${answer.token_estimate}</p>
    ${answer.never_used.length ? html`<p>Listed but never called: ${answer.never_used.map((/** @type {string} */ name) => html`<code>${visible(name)}</code> `)}</p>` : null}
    <${LatencyPlot} id=${summary.recording.id} took=${recording.duration_ms} running=${live.running} filter=${place.filter} go=${go} />
  </div>`;
}

/** Return the value of a colour variable of the style sheet: a canvas cannot use the variable. @param {HTMLElement} element @param {string} name */
function colour(element, name) {
  element.style.color = `var(${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}

/** @param {string} stroke @param {number} size in pixels @param {string} [fill] */
function dots(stroke, size, fill = stroke) {
  return { stroke, paths: () => null, points: { show: true, size, fill } };
}

/** Return the marks of the axis of time. @param {HTMLElement} element @param {number} from @param {number} to */
function marks(element, from, to) {
  return axisMarks(from, to, element.clientWidth / 110);
}

/** @param {{id: string, took: number | null, running: boolean, filter: string, go: (change: Partial<import("./address.js").Place>) => void}} props `took` is how long the recording took in milliseconds, null while it is made */
function LatencyPlot({ id, took, running, filter, go }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [told, tell] = useState("loading");
  const [, words, kind] = state("unanswered", running);
  useEffect(() => {
    /** @type {any} */
    let plot = null;
    let isCurrent = true;
    const load = async () => {
      const [answer, module] = await Promise.all([
        get(`/api/recordings/${id}/latencies`, { filter }),
        import(/** @type {any} */ ("./vendor/uplot.js")),
      ]);
      const element = box.current;
      if (!isCurrent || !element) return;
      if (!answer.at_ms.length) {
        tell("There is no call.");
        return;
      }
      const [text, line, back, accent, warn, bad] = ["--soft", "--line", "--back", "--accent", "--wait", "--bad"].map((name) => colour(element, name));
      const thin = { stroke: line, width: 1 };
      const axis = { stroke: text, grid: thin, ticks: thin };
      plot = new module.default(
        {
          width: element.clientWidth,
          height: 240,
          scales: { x: { time: false }, y: { distr: 3 } },
          legend: { show: false },
          axes: [
            { ...axis, size: 60, label: "since the start of the recording, when the call began", labelSize: 20, labelFont: "12px sans-serif", splits: (/** @type {any} */ _, /** @type {any} */ __, /** @type {number} */ from, /** @type {number} */ to) => marks(element, from, to).map((one) => one.ms), values: (/** @type {any} */ of) => marks(element, of.scales.x.min, of.scales.x.max).map((one) => one.text) },
            { ...axis, size: 70, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map((ms) => (ms ? duration(ms) : "")) },
          ],
          series: [{}, dots(accent, 4), dots(warn, 7, back), dots(kind === "warn" ? warn : bad, 7, back), dots(bad, 6)],
        },
        [answer.at_ms, ...["answered", "cancelled", "unanswered", "failed"].map((kind) => answer.latency_ms.map((/** @type {number} */ ms, /** @type {number} */ index) => (answer.kind[index] === kind ? ms : null)))],
        element,
      );
      plot.over.addEventListener("click", () => {
        const index = plot.cursor.idx;
        if (typeof index === "number") go({ view: "calls", filter, call: answer.row[index] });
      });
      const until = took === null ? "" : `, which took ${duration(took)}`;
      tell(`The calls began from ${duration(answer.at_ms[0])} to ${duration(answer.at_ms.at(-1))} after the start of the recording${until}. ${answer.at_ms.length.toLocaleString("en")} of ${answer.total.toLocaleString("en")} calls${answer.unanswered ? `, ${answer.unanswered.toLocaleString("en")} without an answer` : ""}${answer.total > answer.at_ms.length ? ": the slowest of each stretch of time" : ""}. A click opens the call.`);
    };
    load().catch((error) => tell(error.message));
    return () => {
      isCurrent = false;
      plot?.destroy();
    };
  }, [id, filter, kind]);
  return html`<figure>
    ${isExported ? null : html`<link rel="stylesheet" href="/static/vendor/uplot.css" />`}
    <figcaption>Latency by the time at which a call began${filter ? html` for <code>${filter}</code>` : null}: <span class="legend">answered</span> <span class="legend open warn">cancelled</span> and <span class=${`legend open ${kind}`}>${words}</span>, as long as it waited, <span class="legend bad">failed</span>. <span role="status" class="count">${told}</span></figcaption>
    <div ref=${box} class="plot" aria-hidden="true"></div>
  </figure>`;
}
