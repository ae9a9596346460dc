// @ts-check
/**
 * A list of any length of which only the visible rows exist.
 *
 * Browsers limit the height of an element (Firefox to about 17.9 million pixels). Above `MAX_HEIGHT` the scroll
 * bar is scaled: its position is a fraction of the list, and the wheel moves by rows.
 */
import { needs, takesText } from "./keys.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";

/** The height of a row in pixels, if the style sheet does not say it in `--row`. */
const ROW_HEIGHT = 28;
const MAX_HEIGHT = 8_000_000;

let isFocusWanted = false;

/** Give the focus to the list, now and when the list of another recording takes its place. */
export function focusList() {
  isFocusWanted = true;
  /** @type {HTMLElement | null} */ (document.querySelector(".grid"))?.focus();
}

/**
 * @param {object} props
 * @param {string} props.label
 * @param {string} props.list what is listed: if it changes, the list is shown from its beginning, or with the selected row
 * @param {number} props.total
 * @param {number} props.columns
 * @param {any} props.head the row of headings
 * @param {number} props.selected index of the selected row, or -1
 * @param {(index: number) => void} props.onSelect
 * @param {(index: number) => void} props.onOpen
 * @param {(first: number, last: number) => void} props.onShown the range of rows that is visible now
 * @param {(index: number) => any} props.row
 * @param {boolean} props.following whether the last row is kept in view
 * @param {(following: boolean) => void} props.onFollowing
 */
export function VirtualList({ label, list, total, columns, head, selected, onSelect, onOpen, onShown, row, following, onFollowing }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const [height, setHeight] = useState(400);
  const [rowHeight, setRowHeight] = useState(ROW_HEIGHT);
  const [first, setFirst] = useState(0);
  const shown = Math.max(1, Math.floor(height / rowHeight));
  const lastFirst = Math.max(0, total - shown);
  const full = total * rowHeight;
  const spacer = Math.min(full, MAX_HEIGHT);
  const isScaled = full > MAX_HEIGHT;

  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (scroller.current);
    const measure = () => {
      setHeight(element.clientHeight);
      setRowHeight(Number.parseFloat(getComputedStyle(element).getPropertyValue("--row")) || ROW_HEIGHT);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    // The list may come late, and the reader may be typing by then.
    if (isFocusWanted && !(document.activeElement && takesText(/** @type {HTMLElement} */ (document.activeElement)))) element.parentElement?.focus();
    isFocusWanted = false;
    return () => observer.disconnect();
  }, []);

  /** @param {number} target the index of the first row to show, which may be a fraction */
  const scrollTo = (target) => {
    const element = /** @type {HTMLElement} */ (scroller.current);
    const top = Math.max(0, Math.min(target, lastFirst));
    setFirst(top);
    const travel = spacer - height;
    element.scrollTop = isScaled ? (lastFirst ? (top / lastFirst) * travel : 0) : top * rowHeight;
    own.current = element.scrollTop;
  };
  /** The position to which `scrollTo` has moved the bar. The scroll event of that move must not round `first`. */
  const own = useRef(-1);

  const onScroll = () => {
    const element = /** @type {HTMLElement} */ (scroller.current);
    if (Math.abs(element.scrollTop - own.current) < 1.5) return;
    own.current = -1;
    const travel = spacer - height;
    const top = isScaled ? (travel > 0 ? (element.scrollTop / travel) * lastFirst : 0) : element.scrollTop / rowHeight;
    setFirst(top);
    if (following && top < lastFirst - 1) onFollowing(false);
  };

  /** @param {WheelEvent} event */
  const onWheel = (event) => {
    if (following && event.deltaY < 0) onFollowing(false);
    if (!isScaled || event.ctrlKey) return;
    event.preventDefault();
    const rows = event.deltaMode === 1 ? event.deltaY : event.deltaMode === 2 ? event.deltaY * shown : event.deltaY / rowHeight;
    scrollTo(first + rows);
  };

  // A selected row that was in view stays there when the list becomes smaller.
  const measured = useRef(height);
  useEffect(() => {
    const wasInView = selected >= Math.floor(first) && selected <= first + measured.current / rowHeight;
    measured.current = height;
    if (wasInView && selected > first + shown - 1) scrollTo(selected - shown + 1);
  }, [height]);

  useEffect(() => {
    if (following) scrollTo(lastFirst);
    else if (first > lastFirst) scrollTo(lastFirst);
  }, [total, height, following]);

  const drawn = useRef({ list, rowHeight });
  useEffect(() => {
    const before = drawn.current;
    drawn.current = { list, rowHeight };
    if (selected >= 0 && selected < first) scrollTo(selected);
    else if (selected > first + shown - 1) scrollTo(selected - shown + 1);
    else if (selected < 0 && before.list !== list) scrollTo(0);
    else if (before.rowHeight !== rowHeight) scrollTo(first);
  }, [selected, list, rowHeight]);

  const begin = Math.max(0, Math.min(Math.floor(first), total - 1));
  const end = Math.min(total, begin + shown + 2);
  useEffect(() => onShown(begin, end), [begin, end, total]);

  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || needs(/** @type {HTMLElement} */ (event.target), event.key)) return;
    const now = selected < 0 ? Math.floor(first) - 1 : selected;
    /** @type {Record<string, number>} */
    const targets = {
      ArrowDown: now + 1,
      j: now + 1,
      ArrowUp: now - 1,
      k: now - 1,
      PageDown: now + shown,
      PageUp: now - shown,
      Home: 0,
      g: 0,
      End: total - 1,
      G: total - 1,
    };
    if (event.key in targets) {
      event.preventDefault();
      if (following && targets[event.key] < total - 1) onFollowing(false);
      if (total) onSelect(Math.max(0, Math.min(targets[event.key], total - 1)));
    } else if (event.key === "Enter" && selected >= 0) {
      event.preventDefault();
      onOpen(selected);
    }
  };

  const rows = [];
  for (let index = begin; index < end; index += 1) {
    const top = (index - first) * rowHeight;
    rows.push(html`<div
      key=${index}
      id=${`row-${index}`}
      role="row"
      aria-rowindex=${index + 2}
      aria-selected=${index === selected}
      class=${`row${index === selected ? " selected" : ""}`}
      style=${{ transform: `translateY(${top}px)` }}
      onClick=${() => onSelect(index)}
      onDblClick=${() => onOpen(index)}
    >${row(index)}</div>`);
  }
  return html`<div
    class="grid"
    role="grid"
    tabindex="0"
    aria-label=${label}
    aria-rowcount=${total + 1}
    aria-colcount=${columns}
    aria-activedescendant=${selected >= begin && selected < end ? `row-${selected}` : undefined}
    onKeyDown=${onKeyDown}
  >
    <div class="row head" role="row" aria-rowindex="1">${head}</div>
    <div class="scroller" role="rowgroup" tabindex=${spacer > height ? "0" : undefined} ref=${scroller} onScroll=${onScroll} onWheel=${onWheel}>
      <div class="spacer" role="presentation" style=${{ height: `${spacer}px` }}>
        <div class="window" role="presentation" style=${{ height: `${Math.min(height, spacer)}px` }}>${rows}</div>
      </div>
    </div>
  </div>`;
}
