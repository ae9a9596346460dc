// @ts-check
/**
 * The bars of the timeline for a page without a server. `mcpproxy/read/view/diagrams/lanes.py` makes the same bars, and a test
 * compares them.
 */

const MOST_LANES = 30;
const MESSAGES = -1;
const STRETCH = 20;
const FINEST = 20_000;
export const FAILED = ["tool-error", "rpc-error", "http-error"];
export const NOT_ANSWERED = ["unanswered", "cancelled"];

/** @param {import("./types.js").Call} call */
function length(call) {
  return call.latency_ms ?? call.waited_ms ?? 0;
}

/**
 * Put calls on lanes: there is a second lane only if calls overlap. Bars shorter than `narrow` are put together.
 *
 * @param {import("./types.js").Call[]} calls
 * @param {number} from milliseconds since the start of the recording, as all times here
 * @param {number} to
 * @param {number} narrow
 * @param {number} limit the most bars
 * @returns {import("./types.js").Lanes}
 */
export function lanesOf(calls, from, to, narrow, limit) {
  const open = calls.filter((call) => call.started_ms <= to && call.started_ms + length(call) >= from).sort((left, right) => left.started_ms - right.started_ms);
  /** @type {number[]} */
  const free = [];
  const lanes = open.map((call) => {
    if (call.kind !== "request") return MESSAGES;
    const found = free.findIndex((at) => at <= call.started_ms);
    const lane = found < 0 ? free.length : found;
    if (lane < MOST_LANES) free[lane] = call.started_ms + length(call);
    return lane;
  });
  const last = Math.max(0, ...open.map((call) => call.started_ms + length(call)));
  let least = Math.max(narrow, (Math.min(to, last) - Math.max(from, 0)) / FINEST, 1e-6);
  let bars = merged(open, lanes, least);
  while (bars.length > limit) bars = merged(open, lanes, (least *= 2));
  bars.sort((left, right) => left.lane - right.lane || left.from_ms - right.from_ms);
  return { total: open.length, lanes: free.length, left_out: lanes.filter((lane) => lane === MOST_LANES).length, bars };
}

/** @param {import("./types.js").Call[]} calls @param {number[]} lanes @param {number} narrow */
function merged(calls, lanes, narrow) {
  /** @type {import("./types.js").Bar[]} */
  const bars = [];
  /** @type {Map<number, import("./types.js").Bar>} */
  const last = new Map();
  const stretch = (/** @type {number} */ ms) => Math.floor(ms / (narrow * STRETCH));
  calls.forEach((call, index) => {
    const lane = lanes[index];
    if (lane === MOST_LANES) return;
    const [from, to] = [call.started_ms, call.started_ms + length(call)];
    const errors = FAILED.includes(call.outcome) ? 1 : 0;
    const isNarrow = to - from < narrow;
    let bar = last.get(lane);
    last.delete(lane);
    if (bar && isNarrow && from - bar.to_ms < narrow && stretch(from) === stretch(bar.from_ms)) {
      Object.assign(bar, { to_ms: Math.max(bar.to_ms, to), count: bar.count + 1, errors: bar.errors + errors, call: null });
    } else {
      bar = { lane, from_ms: from, to_ms: to, count: 1, errors, call };
      bars.push(bar);
    }
    if (isNarrow) last.set(lane, bar);
  });
  return bars;
}
