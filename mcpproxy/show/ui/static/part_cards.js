// @ts-check
/** The records of a call, a card each: whole messages, heads of HTTP, what was written to stderr. */
import { address, isExported, request } from "./api.js";
import { CopyButton, SaveButton } from "./copy.js";
import { LongText } from "./find.js";
import { duration, offset, plural, size, visible } from "./format.js";
import { JsonTree, parse } from "./json_tree.js";
import { html, useEffect, useMemo, useState } from "./preact.js";

/** The greatest number of characters of a message that is loaded without a question. */
const LOADED = 2_000_000;

/** @type {Record<string, string>} */
const ROLE_WORDS = {
  request: "Request",
  answer: "Answer",
  progress: "Progress",
  log: "Log",
  cancel: "Cancellation",
  "inner request": "Inner request",
  "inner answer": "Answer to the inner request",
  "given instead": "Given instead by mcpproxy",
  message: "Message",
  "http request": "HTTP request",
  "http response": "HTTP response",
  "http end": "End of the exchange",
  body: "Body",
  "cut event": "Event without its end",
  other: "Event",
};

/**
 * Return the text of a record, with a note if it is only the beginning.
 *
 * @param {string} id of the recording
 * @param {import("./types.js").Part} part
 * @param {boolean} isWanted whether the rest of a text that is not too long is loaded at once
 * @returns {{text: string | null, isCut: boolean, note: any}}
 */
export function useWhole(id, part, isWanted) {
  const [whole, setWhole] = useState(/** @type {string | null} */ (null));
  const [fault, setFault] = useState("");
  const isCut = part.text !== null && whole === null && part.length > part.text.length;
  const load = async () => {
    const response = await request(address(`/api/recordings/${id}/frames/${part.seq}`));
    if (response.ok) setWhole(await response.text());
    else setFault(`It cannot be loaded: ${await response.text()}`);
  };
  const isLoaded = isCut && isWanted && !isExported && part.length <= LOADED;
  useEffect(() => {
    if (isLoaded) load().catch((error) => setFault(`It cannot be loaded: ${error.message}`));
  }, [isLoaded]);
  const note = isCut
    ? html`<p class="count">The first ${size(/** @type {string} */ (part.text).length)} of ${size(part.length)}. ${isExported ? null : html`<button type="button" class="link" onClick=${load}>Load all</button>`} <span class="problem" role="status">${visible(fault)}</span></p>`
    : null;
  return { text: whole ?? part.text, isCut, note };
}

/**
 * @param {object} props
 * @param {string} props.id
 * @param {import("./types.js").Part} props.part
 * @param {import("./types.js").Call} props.call
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {boolean} props.isOpened whether it is open at first
 * @param {string[]} props.marked
 */
export function PartCard({ id, part, call, go, isOpened, marked }) {
  const [isOpen, setOpen] = useState(isOpened || marked.length > 0);
  const [isRaw, setRaw] = useState(false);
  const { text, isCut, note } = useWhole(id, part, false);
  const parsed = useMemo(() => (isOpen && text !== null && !isCut ? parse(text) : null), [isOpen, text]);
  const wait = part.at_ms - call.started_ms;
  return html`<article class=${`part ${part.sender}`}>
    <h3>
      <button type="button" class="j-toggle" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> ${ROLE_WORDS[part.role] ?? part.role}
        ${part.seq === null ? null : html`<span class="count"> frame ${part.seq}</span>`}
        <span class="count"> ${part.sender === "client" ? "→" : part.sender === "server" ? "←" : ""} ${wait ? `${wait > 0 ? "+" : "−"}${duration(Math.abs(wait))}` : offset(part.at_ms)}</span>
        ${isOpen ? null : html`<span class="summary"> ${visible(part.summary)}</span>`}
      </button>
      ${part.row && part.row !== call.number ? html`<button type="button" class="link" onClick=${() => go({ call: part.row, filter: "" })}>call ${part.row}</button>` : null}
      ${isOpen && text ? html`<button type="button" class="link" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>raw</button>` : null}
      ${isOpen && part.seq !== null && text !== null && !isExported ? html`<${SaveButton} words="bytes" name=${`frame-${part.seq}.txt`} path=${address(`/api/recordings/${id}/frames/${part.seq}`, { download: true })} />` : null}
    </h3>
    ${isOpen
      ? html`
          ${part.fields.length ? html`<dl class="fields">${part.fields.map(([name, value]) => html`<dt>${visible(name)}</dt><dd>${visible(value)}</dd>`)}</dl>` : null}
          ${text === "" || (text === null && !part.fields.length) ? html`<p>${visible(part.summary)}</p>` : null}
          ${note}
          ${!text
            ? null
            : html`<div class=${isRaw ? "beside" : ""}>
                ${parsed ? html`<${JsonTree} value=${parsed.value} marked=${marked} label="the message" />` : null}
                ${isRaw || !parsed ? html`<div><${LongText} text=${text} label="the text" /></div>` : null}
              </div>`}
        `
      : null}
  </article>`;
}

/** Successive lines that the server wrote to stderr. @param {{part: import("./types.js").Part, call: import("./types.js").Call}} props */
export function StderrCard({ part, call }) {
  const [isOpen, setOpen] = useState(false);
  const isCut = part.length > (part.text ?? "").length;
  return html`<article class="part stderr">
    <h3>
      <button type="button" class="j-toggle" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> stderr
        <span class="count"> ${plural(part.lines, "line")}, +${duration(Math.max(0, part.at_ms - call.started_ms))}</span>
      </button>
      <${CopyButton} words="copy" label="Copy stderr" text=${() => part.text ?? ""} />
    </h3>
    ${isOpen && isCut ? html`<p class="count">The last ${size(/** @type {string} */ (part.text).length)} of ${size(part.length)}.</p>` : null}
    <pre tabindex="0" aria-label="stderr">${visible((isOpen ? part.text : part.preview) ?? "")}</pre>
  </article>`;
}
