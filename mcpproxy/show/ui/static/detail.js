// @ts-check
/** Everything that belongs to one call: its arguments and result, its messages, inner requests and findings. */
import { href } from "./address.js";
import { useAnswer } from "./answer.js";
import { get, isExported } from "./api.js";
import { CopyButton } from "./copy.js";
import { FindingCard } from "./findings.js";
import { duration, offset, outcome, plural, sessionNames, size, taken, title, visible } from "./format.js";
import { needs } from "./keys.js";
import { PartCard, StderrCard } from "./part_cards.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { useRemembered } from "./remembered.js";
import { IN_ITS_PLACE, ResultPanes, isInPanes } from "./result_panes.js";
import { SendAgain } from "./send.js";

const FEW = 50;
const TABS = [
  ["result", "Result", "the arguments and the result"],
  ["messages", "Messages", "the request and the answer as they were sent"],
];

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./types.js").Summary["sessions"]} props.sessions
 * @param {import("./live.js").Live} props.live
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {boolean} props.isWide whether it has the place of the list, too
 * @param {(isWide: boolean) => void} props.setWide
 */
export function CallDetail({ summary, sessions, live, place, go, isWide, setWide }) {
  const id = summary.recording.id;
  const section = useRef(/** @type {HTMLElement | null} */ (null));
  const [detail, setDetail] = useState(/** @type {import("./types.js").Detail | null} */ (null));
  const [error, setError] = useState("");
  const [isSending, setSending] = useState(false);
  const [count, setCount] = useState(FEW);
  const [keptTab, keepTab] = useRemembered("detail-tab", "result");
  const [chosenTab, chooseTab] = useState("");
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
  // The list, which has the focus otherwise, is not there.
  useEffect(() => {
    if (isWide && !section.current?.contains(document.activeElement)) section.current?.focus();
  }, [isWide, detail !== null]);
  const close = () => {
    section.current?.parentElement?.classList.remove("wide"); // now, so that the list can take the focus
    go({ call: 0 });
    /** @type {HTMLElement} */ (document.querySelector(".grid"))?.focus();
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      if (isWide) setWide(false);
      else close();
    } else if (event.key === "Enter" && !needs(/** @type {HTMLElement} */ (event.target), "Enter")) {
      event.preventDefault();
      setWide(!isWide);
    }
  };
  /** @param {any} heading @param {any} [before] another button */
  const header = (heading, before) => html`<header>
    <h2>${heading}</h2>
    <span class="window-buttons">${before}<button type="button" class="close" aria-label="Close the detail" onClick=${close}>✕</button></span>
  </header>`;
  if (!detail) {
    return html`<section class="detail" tabindex="-1" ref=${section} aria-label=${`Call ${place.call}`} onKeyDown=${onKeyDown}>
      ${header(html`<span class="count">#${place.call}</span>`)}
      ${error ? html`<p class="problem">${error}</p>` : html`<p>loading</p>`}
    </section>`;
  }
  const { call, parts, findings, inner } = detail;
  const [symbol, words, kind] = outcome(call, live.running);
  const session = sessionNames(sessions).get(call.session);
  const ms = taken(call, live.now(), live.running);
  const cause = call.outcome === "unanswered" && live.running && !call.closed && !detail.cause_row ? `There has been no answer for ${duration(ms)}.${call.progress ? ` The last progress: ${call.progress}.` : ""}` : detail.cause;
  const all = findings.flatMap((finding) => [{ frame: finding.frame, pointer: finding.pointer }, ...finding.others]);
  const pointers = all.filter((finding) => finding.pointer);
  const asked = call.kind === "request" ? parts.find((part) => part.role === "request") : undefined;
  const answer = parts.find((part) => part.role === "answer");
  const body = answer ? undefined : parts.filter((part) => part.row === call.number && part.role in IN_ITS_PLACE).at(-1);
  const given = parts.filter((part) => part.role === "given instead");
  const main = asked ? parts.filter((part) => part === asked || part === answer || part === body || given.includes(part)) : [];
  const rest = parts.filter((part) => !main.includes(part));
  const isProgress = (/** @type {import("./types.js").Part} */ part) => part.role === "progress";
  // There may be a thousand notifications of progress, and they must not bury what was written to stderr.
  const others = rest.length > FEW ? [...rest.filter((part) => !isProgress(part)), ...rest.filter(isProgress)] : rest;
  const leadsOut = pointers.some((one) => main.some((part) => part.seq === one.frame) && !isInPanes(call, answer, one.pointer));
  const tab = chosenTab || (leadsOut ? "messages" : keptTab);
  /** @param {import("./types.js").Part} part @param {boolean} isOpened */
  const card = (part, isOpened) =>
    part.role === "log" && part.seq === null
      ? html`<${StderrCard} key=${`stderr/${part.at_ms}`} part=${part} call=${call} />`
      : html`<${PartCard} key=${`${part.seq}/${part.role}/${part.at_ms}`} id=${id} part=${part} call=${call} go=${go} isOpened=${isOpened} marked=${pointers.filter((one) => one.frame === part.seq).map((one) => one.pointer)} />`;
  /** @param {import("./types.js").Finding[]} found */
  const cards = (found) =>
    found.length ? html`<h3>${plural(found.reduce((sum, one) => sum + 1 + one.others.length, 0), found[0].severity === "info" ? "note" : "finding")}</h3>${found.map((finding) => html`<${FindingCard} finding=${finding} go=${go} />`)}` : null;
  return html`<section class="detail" tabindex="-1" ref=${section} aria-label=${`Call ${call.number}`} onKeyDown=${onKeyDown}>
    ${header(
      html`<span class="count">#${call.number}</span> ${visible(title(call))}`,
      html`<button type="button" class="widen" aria-pressed=${isWide} title="the whole width (Enter)" onClick=${() => setWide(!isWide)}>${isWide ? "⇥ list" : "⇤ wide"}</button>`,
    )}
    <p class="facts">
      ${words ? html`<span class=${kind}><span aria-hidden="true">${symbol}</span> ${words}</span>` : null}
      ${call.intervention ? html`<span class="intervention">${call.intervention}</span>` : null}
      ${ms === null ? null : html`<span>${call.latency_ms === null ? "waited" : "took"} ${duration(ms)}</span>`}
      ${call.method ? html`<span>${call.method}</span>` : null}
      ${call.id ? html`<span>id <code>${visible(call.id)}</code></span>` : null}
      ${session ? html`<span>session <code>${session}</code></span>` : null}
      <span>${call.sender === "client" ? "from the client" : "from the server"} at ${offset(call.started_ms)}</span>
      ${asked ? null : html`<span>${size(call.request_bytes + call.answer_bytes)}</span>`}
      ${call.parent ? html`<button type="button" class="link" onClick=${() => go({ call: call.parent, filter: "" })}>inside call ${call.parent}</button>` : null}
      ${inner.map((row) => html`<button type="button" class="link" onClick=${() => go({ call: row, filter: "" })}>inner call ${row}</button>`)}
    </p>
    ${cause ? html`<p class=${kind === "bad" ? "error-box" : "warn-box"} role="note"><${Cause} cause=${cause} row=${detail.cause_row} go=${go} /></p>` : null}
    ${cards(findings.filter((finding) => finding.severity !== "info"))}
    ${summary.not_sent_because ? html`<p class="count">Cannot be sent again: ${visible(summary.not_sent_because)}.</p>` : null}
    <div class="actions">
      ${asked ? html`<${Tabs} tab=${tab} choose=${(/** @type {string} */ name) => { chooseTab(name); keepTab(name); }} />` : null}
      ${copies(summary, detail)}
      ${summary.may_send && call.kind === "request" && call.sender === "client" ? html`<button type="button" aria-expanded=${isSending} onClick=${() => setSending(!isSending)}>Send again…</button>` : null}
    </div>
    ${isSending ? html`<${SendAgain} summary=${summary} detail=${detail} />` : null}
    ${asked
      ? html`<div role="tabpanel" id="detail-panel" aria-labelledby=${`tab-${tab}`}>
          ${tab === "result"
            ? html`<${ResultPanes} id=${id} call=${call} request=${asked} answer=${answer} body=${body} given=${given} pointers=${pointers} isRunning=${live.running} />`
            : main.map((part) => card(part, true))}
        </div>`
      : null}
    ${asked && call.method === "tools/call" ? html`<${ModelSaw} id=${id} number=${call.number} place=${place} version=${isOpen ? live.version : -1} />` : null}
    ${cards(findings.filter((finding) => finding.severity === "info"))}
    ${others.slice(0, count).map((part) => card(part, parts.length === 1))}
    ${others.length > count ? html`<button type="button" class="more" onClick=${() => setCount(count * 10)}>${plural(others.length - count, "more record")}</button>` : null}
    ${detail.left_out ? html`<p class="note">${plural(detail.left_out, "record")} in the middle not shown</p>` : null}
  </section>`;
}

/**
 * What the model asked with the call and got of it; nothing if that was not recorded, or cannot be read.
 *
 * @param {{id: string, number: number, place: import("./address.js").Place, version: number}} props
 */
function ModelSaw({ id, number, place, version }) {
  const [seen] = useAnswer(`/api/recordings/${id}/calls/${number}/prompt`, {}, version);
  if (!seen?.words.length) return null;
  const there = { ...place, recording: seen.recording, view: "calls", filter: "", order: "", call: 0 };
  return html`<h3>The model saw</h3>
    <ul class="model-saw">${seen.words.map((/** @type {string} */ words) => html`<li>${words}</li>`)}</ul>
    ${isExported ? null : html`<p class="count"><a href=${href(there)}>the recording of the model</a></p>`}`;
}

/** @param {{cause: string, row: number, go: (change: Partial<import("./address.js").Place>) => void}} props `row` is the other row that the cause names, or 0 */
function Cause({ cause, row, go }) {
  const words = `(row ${row})`;
  const at = row ? cause.indexOf(words) : -1;
  if (at < 0) return visible(cause);
  const end = at + words.length + 1; // the full stop or the colon stays with it
  return html`${visible(cause.slice(0, at))}<span class="unbroken">(<button type="button" class="link" onClick=${() => go({ call: row, filter: "" })}>row ${row}</button>)${cause.slice(end - 1, end)}</span>${visible(cause.slice(end))}`;
}

/** @param {{tab: string, choose: (tab: string) => void}} props */
function Tabs({ tab, choose }) {
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const other = TABS.find(([name]) => name !== tab)?.[0] ?? tab;
    choose(other);
    document.getElementById(`tab-${other}`)?.focus();
  };
  return html`<div role="tablist" aria-label="What is shown of the call" class="detail-tabs" onKeyDown=${onKeyDown}>${TABS.map(
    ([name, words, about]) => html`<button type="button" role="tab" title=${about} id=${`tab-${name}`} aria-selected=${name === tab} aria-controls="detail-panel" tabindex=${name === tab ? 0 : -1} onClick=${() => choose(name)}>${words}</button>`,
  )}</div>`;
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
  return html`<span class="copies" role="group" aria-label="Copy the call">
    <span class="count" aria-hidden="true">Copy</span>
    <${CopyButton} words="JSON" label="Copy JSON" text=${() => form("json")} />
    ${call.kind === "request" && summary.recording.transport === "http" && !isExported ? html`<${CopyButton} words="curl" label="Copy as curl" text=${() => form("curl")} />` : null}
    ${isExported ? null : html`<${CopyButton} words="trim" label="Copy trim command" text=${() => form("trim")} />`}
    ${isExported ? null : html`<${CopyButton} words="replay" label="Copy replay command" text=${() => form("replay")} />`}
    <${CopyButton} words="link" label="Copy link" text=${() => location.href} />
  </span>`;
}
