// @ts-check
/**
 * The filter language and the orders of rows for a page without a server. `mcpproxy/judge/session/filter.py` reads the same
 * language, and `mcpproxy/read/view/rows` has what applies it and sorts. A test compares the results.
 */

/** @typedef {import("./types.js").Call & {rules: string[], session_name: string}} OfflineCall */
/** @typedef {{key: string, values: string[], negated: boolean}} Term */

const KEYS = ["tool", "prompt", "resource", "target", "method", "status", "code", "latency", "bytes", "rule", "severity", "from", "session", "kind", "call", "frame", "id", "text"];
const ERRORS = ["tool-error", "rpc-error", "http-error"];
/** @type {Record<string, string[]>} */
const STATUS = { error: ERRORS, unsuccessful: [...ERRORS, "refused", "unanswered", "cancelled", "unreadable"] };
/** @type {Record<string, string>} other words of `status:` -> the word that each is read as */
const STATUS_ALIASES = { "no-answer": "unanswered", open: "unanswered", pending: "unanswered", waiting: "unanswered", failed: "error", canceled: "cancelled" };
/** @type {Record<string, Record<string, number>>} */
const UNITS = {
  latency: { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1e3, m: 6e4, min: 6e4, h: 36e5 },
  bytes: { "": 1, b: 1, k: 1e3, kb: 1e3, kib: 1024, m: 1e6, mb: 1e6, mib: 1048576, g: 1e9, gb: 1e9, gib: 1073741824 },
};

/**
 * @param {string} text
 * @returns {Term[]}
 */
export function parseFilter(text) {
  const pattern = /\s*(-?)(?:([A-Za-z]+):)?((?:"(?:[^"\\]|\\.)*"|[^\s",]|,)*)/suy;
  const terms = [];
  /** @type {[string, number] | undefined} */
  let operator;
  const end = text.trimEnd().length;
  while (pattern.lastIndex < end) {
    const start = pattern.lastIndex;
    const found = pattern.exec(text);
    if (!found || pattern.lastIndex === start || text[pattern.lastIndex] === '"') throw new Error(`filter, column ${start + 1}: cannot be read`);
    const key = found[2]?.toLowerCase() ?? "text";
    if (!KEYS.includes(key)) throw new Error(`filter, column ${start + 1}: there is no ${found[2]}:; there are ${KEYS.join(", ")}`);
    const isWord = !found[2] && !found[3].startsWith('"');
    const values = isWord ? [found[3]].filter(Boolean) : [...found[3].matchAll(/"((?:[^"\\]|\\.)*)"|([^",]+)/gsu)].map(([, quoted, plain]) => (quoted === undefined ? plain : quoted.replace(/\\(.)/gsu, "$1")));
    if (!values.length) throw new Error(`filter, column ${start + 1}: nothing after ${found[2] ? `${found[2]}:` : "-"}`);
    terms.push({ key, values, negated: found[1] === "-" });
    if (isWord && /^(and|or)$/iu.test(found[0].trim())) operator ??= [found[3], start + 1];
  }
  if (operator && terms.some(({ key }) => key !== "text")) throw new Error(`filter, column ${operator[1]}: ${operator[0]} stands between terms; all terms must hold; commas separate what one may be (status:error,unanswered), a - excludes (-method:ping), and "${operator[0]}" searches for the word`);
  return terms;
}

/** @param {string} pattern with * and ? @param {string} text */
function fits(pattern, text) {
  const source = [...pattern].map((one) => (one === "*" ? ".*" : one === "?" ? "." : one.replace(/[\\^$.|+()[\]{}/]/u, "\\$&"))).join("");
  return new RegExp(`^${source}$`, "isu").test(text);
}

/** @param {string} key @param {string} value @returns {[number, number]} */
function range(key, value) {
  const units = UNITS[key] ?? { "": 1 };
  /** @param {string} text */
  const number = (text) => {
    const found = /^(-?\d+(?:\.\d+)?)([a-zµ]*)$/iu.exec(text);
    const unit = found ? units[found[2].toLowerCase()] : undefined;
    if (!found || unit === undefined) throw new Error(`filter: ${key}:${value} cannot be read`);
    return Number(found[1]) * unit;
  };
  const [low, high] = value.split("..");
  if (high !== undefined) return [low ? number(low) : -Infinity, high ? number(high) : Infinity];
  const step = key === "latency" ? 1e-6 : 1;
  if (value.startsWith(">=")) return [number(value.slice(2)), Infinity];
  if (value.startsWith("<=")) return [-Infinity, number(value.slice(2))];
  if (value.startsWith(">")) return [number(value.slice(1)) + step, Infinity];
  if (value.startsWith("<")) return [-Infinity, number(value.slice(1)) - step];
  return [number(value), number(value)];
}

/** @param {Term} term @param {number | null | undefined} number */
function within(term, number) {
  if (number === null || number === undefined) return false;
  return term.values.some((value) => {
    const [low, high] = range(term.key, value);
    return number >= low - 1e-9 && number <= high + 1e-9;
  });
}

/**
 * Whether a call passes a term. A term of free text passes here; `offline.js` applies it.
 *
 * @param {Term} term
 * @param {OfflineCall} call
 */
function holds(term, call) {
  /** @param {string} text */
  const matches = (text) => term.values.some((value) => fits(value, text));
  /** @param {string} method */
  const named = (method) => call.target !== null && call.method.startsWith(method) && matches(call.target);
  switch (term.key) {
    case "tool":
      return named("tools/call");
    case "prompt":
      return named("prompts/get");
    case "resource":
      return named("resources/");
    case "target":
      return call.target !== null && matches(call.target);
    case "method":
      return matches(call.method);
    case "status":
      return term.values.map((word) => STATUS_ALIASES[word] ?? word).some((word) => (STATUS[word] ?? [word]).includes(call.outcome));
    case "kind":
      return term.values.some((word) => word === call.kind.replaceAll(" ", "-"));
    case "from":
      return term.values.includes(call.sender);
    case "severity":
      return call.severity !== null && term.values.includes(call.severity);
    case "session":
      return term.values.some((value) => fits(value && `${value}*`, call.session_name));
    case "rule":
      return call.rules.some(matches);
    case "id":
      return matches(call.id);
    case "code":
      return within(term, call.error_code);
    case "latency":
      return within(term, call.latency_ms ?? call.waited_ms);
    case "bytes":
      return within(term, call.request_bytes + call.answer_bytes);
    case "call":
      return within(term, call.number);
    case "frame":
      return within(term, call.frame || null) || within(term, call.answer);
    default:
      return true;
  }
}

/**
 * @param {Term[]} terms
 * @param {OfflineCall} call
 */
export function passes(terms, call) {
  return terms.every((term) => term.key === "text" || holds(term, call) !== term.negated);
}

/** Outcomes in the order in which a person wants to see them. */
const URGENT = [...ERRORS, "refused", "unanswered", "unreadable", "cancelled", "input-required", "declined", "ok", "none"];

/**
 * Return calls in an order: empty for that of the recording; after a `-` the largest first.
 *
 * @param {OfflineCall[]} calls
 * @param {string} order
 */
export function ordered(calls, order) {
  const sign = order.startsWith("-") ? -1 : 1;
  /** @type {Record<string, (call: OfflineCall) => number | string>} */
  const keys = {
    time: (call) => call.started_ms,
    outcome: (call) => URGENT.indexOf(call.outcome),
    method: (call) => `${call.method}\u0000${call.target ?? ""}`,
    latency: (call) => call.latency_ms ?? call.waited_ms ?? sign * Infinity,
    bytes: (call) => call.request_bytes + call.answer_bytes,
  };
  const key = keys[order.replace(/^-/, "")];
  if (!key) return calls;
  return [...calls].sort((left, right) => {
    const [first, second] = [key(left), key(right)];
    return first < second ? -sign : first > second ? sign : 0;
  });
}
