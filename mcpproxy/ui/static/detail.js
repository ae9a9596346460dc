// @ts-check
/** Everything that belongs to one call: its messages, heads of HTTP, inner requests and findings. */
import { address, get, isExported, request } from "./api.js";
import { CopyButton, SaveButton } from "./copy.js";
import { FindingCard } from "./findings.js";
import { duration, offset, outcome, plural, sessionNames, size, taken, title, visible } from "./format.js";
import { JsonTree, parse } from "./json_tree.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { SendAgain } from "./send.js";

const FEW = 50;

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./types.js").Summary["sessions"]} props.sessions
 * @param {import("./live.js").Live} props.live
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function CallDetail({ summary, sessions, live, place, go }) {
  const id = summary.recording.id;
  const section = useRef(/** @type {HTMLElement | null} */ (null));
  const [detail, setDetail] = useState(/** @type {import("./types.js").Detail | null} */ (null));
  const [error, setError] = useState("");
  const [isSending, setSending] = useState(false);
  const [count, setCount] = useState(FEW);
  const isOpen = !detail || (live.running && (detail.call.outcome === "unanswered" || live.first <= detail.call.number));
  useEffect(() => {
    const request = new AbortController();
    get(`/api/recordings/${id}/calls/${place.call}`, {}, request.signal)
      .then((found) => setDetail(found))
      .catch((fault) => {
        if (!request.signal.aborted) setError(fault.message);
      });
    return () => request.abort();
  }, [id, place.call, isOpen ? live.version : -1]);
  const close = () => {
    go({ call: 0 });
    /** @type {HTMLElement} */ (document.querySelector(".grid"))?.focus();
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
  };
  if (!detail) {
    return html`<section class="detail" tabindex="-1" aria-label=${`Call ${place.call}`} onKeyDown=${onKeyDown}>${error ? html`<p class="problem">${error}</p>` : html`<p>loading</p>`}</section>`;
  }
  const { call, parts, findings, inner } = detail;
  const [symbol, words, kind] = outcome(call, live.running);
  const session = sessionNames(sessions).get(call.session);
  const ms = taken(call, live.now(), live.running);
  const cause = call.outcome === "unanswered" && live.running ? `There is no answer for ${duration(ms)}.${call.progress ? ` The last progress: ${call.progress}.` : ""}` : detail.cause;
  const pointers = findings.filter((finding) => finding.pointer).map((finding) => ({ frame: finding.frame, pointer: finding.pointer }));
  return html`<section class="detail" tabindex="-1" ref=${section} aria-label=${`Call ${call.number}`} onKeyDown=${onKeyDown}>
    <header>
      <h2><span class="count">#${call.number}</span> ${visible(title(call))}</h2>
      <button type="button" class="close" aria-label="Close the detail" onClick=${close}>✕</button>
    </header>
    <p class="facts">
      <span class=${kind}><span aria-hidden="true">${symbol}</span> ${words || call.kind}</span>
      ${ms === null ? null : html`<span>${call.latency_ms === null ? "waited" : "took"} ${duration(ms)}</span>`}
      <span>${call.method}</span>
      ${call.id ? html`<span>id <code>${visible(call.id)}</code></span>` : null}
      ${session ? html`<span>session <code>${session}</code></span>` : null}
      <span>${call.sender === "client" ? "from the client" : "from the server"} at ${offset(call.started_ms)}</span>
      <span>${call.kind === "request" ? `${size(call.request_bytes)} → ${size(call.answer_bytes)}` : size(call.request_bytes + call.answer_bytes)}</span>
      ${call.parent ? html`<button type="button" class="link" onClick=${() => go({ call: call.parent, filter: "" })}>inside call ${call.parent}</button>` : null}
      ${inner.map((row) => html`<button type="button" class="link" onClick=${() => go({ call: row, filter: "" })}>inner call ${row}</button>`)}
    </p>
    ${cause ? html`<p class=${kind === "bad" ? "error-box" : "waiting-box"} role="note">${visible(cause)}</p>` : null}
    ${findings.length ? html`<h3>${plural(findings.length, "finding")}</h3>` : null}
    ${findings.map((finding) => html`<${FindingCard} finding=${finding} go=${go} />`)}
    <div class="actions">
      ${copies(summary, detail)}
      ${summary.may_send && call.kind === "request" && call.sender === "client" ? html`<button type="button" aria-expanded=${isSending} onClick=${() => setSending(!isSending)}>Send again…</button>` : null}
      ${summary.not_sent_because ? html`<span class="count">Cannot be sent again: ${visible(summary.not_sent_because)}.</span>` : null}
    </div>
    ${isSending ? html`<${SendAgain} summary=${summary} detail=${detail} />` : null}
    ${parts.slice(0, count).map((part) => part.role === "log" && part.seq === null ? html`<${StderrCard} part=${part} call=${call} />` : html`<${PartCard} key=${`${part.seq}/${part.role}`} id=${id} part=${part} call=${call} go=${go} isAlone=${parts.length === 1} marked=${pointers.filter((one) => one.frame === part.seq).map((one) => one.pointer)} />`)}
    ${parts.length > count ? html`<button type="button" class="more" onClick=${() => setCount(count * 10)}>${plural(parts.length - count, "more record")}</button>` : null}
    ${detail.left_out ? html`<p class="note">${plural(detail.left_out, "record")} in the middle not shown</p>` : null}
  </section>`;
}

/**
 * @param {import("./types.js").Summary} summary
 * @param {import("./types.js").Detail} detail
 */
function copies(summary, detail) {
  const { call } = detail;
  const id = summary.recording.id;
  /** @param {string} form */
  const form = async (form) => (await get(`/api/recordings/${id}/calls/${call.number}/copy`, { form })).text;
  return html`
    <${CopyButton} words="Copy JSON" text=${() => form("json")} />
    ${call.kind === "request" && summary.recording.transport === "http" && !isExported ? html`<${CopyButton} words="Copy as curl" text=${() => form("curl")} />` : null}
    ${isExported ? null : html`<${CopyButton} words="Copy trim command" text=${() => form("trim")} />`}
    ${isExported ? null : html`<${CopyButton} words="Copy replay command" text=${() => form("replay")} />`}
    <${CopyButton} words="Copy link" text=${() => location.href} />`;
}

/** @type {Record<string, string>} */
const ROLE_WORDS = {
  request: "Request",
  answer: "Answer",
  progress: "Progress",
  log: "Log",
  cancel: "Cancellation",
  "inner request": "Inner request",
  "inner answer": "Answer to the inner request",
  message: "Message",
  "http request": "HTTP request",
  "http response": "HTTP response",
  "http end": "End of the exchange",
  other: "Event",
};

/**
 * @param {object} props
 * @param {string} props.id
 * @param {import("./types.js").Part} props.part
 * @param {import("./types.js").Call} props.call
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {boolean} props.isAlone whether it is the only record of the call
 * @param {string[]} props.marked
 */
function PartCard({ id, part, call, go, isAlone, marked }) {
  const isMain = isAlone || part.role === "request" || part.role === "answer" || marked.length > 0;
  const [isOpen, setOpen] = useState(isMain);
  const [isRaw, setRaw] = useState(false);
  const [whole, setWhole] = useState(/** @type {string | null} */ (null));
  const [fault, setFault] = useState("");
  const text = whole ?? part.text;
  const isCut = part.text !== null && whole === null && part.length > part.text.length;
  const parsed = isOpen && text !== null && !isCut ? parse(text) : null;
  const load = async () => {
    const response = await request(address(`/api/recordings/${id}/frames/${part.seq}`));
    if (response.ok) setWhole(await response.text());
    else setFault(`It cannot be loaded: ${await response.text()}`);
  };
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
      ${isOpen && text !== null ? html`<button type="button" class="link" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>raw</button>` : null}
      ${isOpen && part.seq !== null && text !== null && !isExported ? html`<${SaveButton} words="bytes" name=${`frame-${part.seq}.txt`} path=${address(`/api/recordings/${id}/frames/${part.seq}`, { download: true })} />` : null}
    </h3>
    ${isOpen
      ? html`
          ${part.fields.length ? html`<dl class="fields">${part.fields.map(([name, value]) => html`<dt>${visible(name)}</dt><dd>${visible(value)}</dd>`)}</dl>` : null}
          ${text === null && !part.fields.length ? html`<p>${visible(part.summary)}</p>` : null}
          ${isCut ? html`<p class="count">The first ${size(/** @type {string} */ (part.text).length)} of ${size(part.length)}. ${isExported ? null : html`<button type="button" class="link" onClick=${load}>Load all</button>`} <span class="problem" role="status">${visible(fault)}</span></p>` : null}
          ${text === null
            ? null
            : html`<div class=${isRaw ? "beside" : ""}>
                ${parsed ? html`<div class="json"><${JsonTree} value=${parsed.value} marked=${marked} /></div>` : null}
                ${isRaw || !parsed ? html`<${LongText} text=${text} />` : null}
              </div>`}
        `
      : null}
  </article>`;
}

/** How many of the last lines on stderr are shown at first. */
const LAST_LINES = 3;

/** Successive lines that the server wrote to stderr. The last ones say most. @param {{part: import("./types.js").Part, call: import("./types.js").Call}} props */
function StderrCard({ part, call }) {
  const [isOpen, setOpen] = useState(false);
  const lines = (part.text ?? "").split("\n");
  const isCut = part.length > (part.text ?? "").length;
  return html`<article class="part">
    <h3>
      <button type="button" class="j-toggle" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> stderr
        <span class="count"> ${plural(part.lines, "line")}, +${duration(Math.max(0, part.at_ms - call.started_ms))}</span>
      </button>
    </h3>
    ${isOpen && isCut ? html`<p class="count">The last ${size(/** @type {string} */ (part.text).length)} of ${size(part.length)}.</p>` : null}
    <pre tabindex="0" aria-label="stderr">${visible((isOpen ? lines : lines.slice(-LAST_LINES)).join("\n"))}</pre>
  </article>`;
}

/** @param {{text: string}} props */
function LongText({ text }) {
  const [length, setLength] = useState(20_000);
  return html`<pre tabindex="0">${visible(text.slice(0, length))}</pre>${text.length > length ? html`<button type="button" class="more" onClick=${() => setLength(length * 10)}>${(text.length - length).toLocaleString("en")} more characters</button>` : null}`;
}
