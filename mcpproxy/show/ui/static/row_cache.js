// @ts-check
/** The rows of a filtered list, fetched in windows when they come into view. */
import { get } from "./api.js";

/** How many rows are fetched at a time: some three screens, since a jump waits for all of them. */
const WINDOW = 100;
const KEPT = 40;
const AT_ONCE = 2;

export class RowCache {
  /**
   * @param {string} recording
   * @param {string} filter
   * @param {string} order
   * @param {() => void} onChange called when rows have arrived
   * @param {(error: Error) => void} onError
   */
  constructor(recording, filter, order, onChange, onError) {
    this.recording = recording;
    this.filter = filter;
    this.order = order;
    this.onChange = onChange;
    this.onError = onError;
    /** @type {Map<number, import("./types.js").Call[]>} */
    this.windows = new Map();
    /** @type {Map<number, AbortController>} */
    this.pending = new Map();
    this.first = 0;
    this.last = 0;
    this.isClosed = false;
    /** Windows whose rows have changed since they were fetched. The old rows are shown until the new ones arrive. */
    this.stale = new Set();
  }

  /** @param {number} index */
  row(index) {
    return this.windows.get(Math.floor(index / WINDOW))?.[index % WINDOW];
  }

  /**
   * Fetch the missing rows from `first` to before `last`, and forget rows that are far away.
   *
   * @param {number} first
   * @param {number} last
   */
  show(first, last) {
    this.first = first;
    this.last = last;
    this.#fetch();
  }

  /** Fetch the rows from `index` on again, because they have changed. @param {number} index */
  changed(index) {
    // The rows of a window that is being fetched may be older than the change.
    for (const number of [...this.windows.keys(), ...this.pending.keys()]) if ((number + 1) * WINDOW > index) this.stale.add(number);
    this.#fetch();
  }

  close() {
    this.isClosed = true;
    for (const request of this.pending.values()) request.abort();
  }

  #fetch() {
    // No row is shown before the rows are counted. A request for a row would search the whole recording at once.
    if (this.isClosed || this.last <= this.first) return;
    const begin = Math.floor(this.first / WINDOW);
    const end = Math.floor(Math.max(this.first, this.last - 1) / WINDOW);
    for (const [number, request] of this.pending) if (number < begin || number > end) request.abort();
    for (let number = begin; number <= end; number += 1) {
      const isFresh = this.windows.has(number) && !this.stale.has(number);
      if (isFresh || this.pending.has(number) || this.pending.size >= AT_ONCE) continue;
      this.#load(number);
    }
  }

  /** @param {number} number */
  async #load(number) {
    const request = new AbortController();
    this.pending.set(number, request);
    this.stale.delete(number);
    try {
      const query = { filter: this.filter, order: this.order, start: number * WINDOW, limit: WINDOW };
      const answer = await get(`/api/recordings/${this.recording}/calls`, query, request.signal);
      this.windows.delete(number); // the window that was fetched last is the last one in a Map
      this.windows.set(number, answer.rows);
      for (const oldest of [...this.windows.keys()].slice(0, Math.max(0, this.windows.size - KEPT))) {
        this.windows.delete(oldest);
      }
    } catch (error) {
      this.stale.add(number);
      if (!request.signal.aborted && !this.isClosed) {
        this.isClosed = true; // another request would fail, too
        this.onError(/** @type {Error} */ (error));
      }
    }
    this.pending.delete(number);
    if (this.isClosed) return;
    if (!request.signal.aborted) this.onChange();
    this.#fetch();
  }
}
