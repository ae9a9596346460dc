// @ts-check
/** Times at which an axis has a mark: round numbers, with their unit. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** Milliseconds between two marks: 1, 2 or 5 of a decimal unit, and what is round of minutes and hours. */
const STEPS = [
  ...[-3, -2, -1, 0, 1, 2, 3].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power)),
  ...[10, 20, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 6, 12, 24, 48, 168].map((hours) => hours * HOUR),
];

/**
 * Return the marks of an axis, each with its text.
 *
 * @param {number} from milliseconds
 * @param {number} to
 * @param {number} most how many marks there may be
 * @returns {{ms: number, text: string}[]}
 */
export function axisMarks(from, to, most) {
  const least = (to - from) / Math.max(1, most);
  const step = STEPS.find((one) => one >= least) ?? Math.ceil(least / HOUR) * HOUR;
  const marks = [];
  for (let number = Math.ceil(from / step); number * step <= to; number += 1) {
    marks.push({ ms: number * step, text: markText(number * step, step) });
  }
  return marks;
}

/** @param {number} ms @param {number} step the time between two marks, which says how exact the text is */
function markText(ms, step) {
  const digits = (/** @type {number} */ unit) => Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  if (step < SECOND && Math.abs(ms) < SECOND) return ms ? `${ms.toFixed(digits(1))} ms` : "0 ms";
  if (Math.abs(ms) < MINUTE) return `${(ms / SECOND).toFixed(digits(SECOND))} s`;
  const minutes = Math.floor(ms / MINUTE);
  const seconds = (ms - minutes * MINUTE) / SECOND;
  const rest = `${seconds < 10 ? "0" : ""}${seconds.toFixed(digits(SECOND))}s`;
  if (minutes < 60) return `${minutes}m${rest}`;
  return `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, "0")}m${step < MINUTE ? rest : ""}`;
}
