// @ts-check
/** The list of the recordings in the folder: by day, those of one run together, and a box that filters them. */
import { Tally, duration, lossClass, visible } from "./format.js";
import { heldIn } from "./held.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { useStill } from "./still.js";
import { href } from "./address.js";
import { isExported } from "./api.js";
import { focusList } from "./virtual_list.js";

/** How many recordings are listed before the rest is asked for. */
const FEW = 200;

/** What is searched for in all recordings to see why calls were not successful. */
const UNSUCCESSFUL = "status:unsuccessful kind:request";

/** What is searched for in all recordings to see what broke the protocol. */
const BROKEN = "severity:error,warning";

/** What the list says of recordings that it puts together. @type {Record<string, string>} */
const SURE = { certain: "one client", likely: "likely one client", guess: "one client? a guess" };

/**
 * @typedef {object} Group The recordings of a run, or one that is alone.
 * @property {string} title empty for one that is alone
 * @property {string} certainty
 * @property {string} why
 * @property {import("./types.js").Recording[]} members
 */

/**
 * @param {object} props
 * @param {boolean} props.isShown whether it is not put away in a wide window
 * @param {boolean} props.isLoaded
 * @param {import("./types.js").Recording[]} props.recordings
 * @param {import("./types.js").Run[]} props.runs
 * @param {import("./held.js").Held} props.held
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {() => void} props.onChosen
 */
export function Sidebar({ isShown, isLoaded, recordings, runs, held, place, go, onChosen }) {
  const { press, still } = useStill();
  const [text, setText] = useState("");
  const [isWhole, setWhole] = useState(false);
  const [closed, setClosed] = useState(/** @type {string[]} */ ([])); // the days of which only the chosen recording is listed
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  // A list that stands still under the pointer has the mark where it was, but the entry of this recording, too.
  const here = () => document.getElementById(`recording-${place.recording}`);
  const failed = recordings.filter((one) => one.failed && one.lost !== "declined" && !one.has_not_begun);
  const notBegun = recordings.filter((one) => one.has_not_begun);
  const isLost = notBegun.length > 0 || failed.some((one) => lossClass(one.lost, one.running) === "bad");
  const broken = recordings.filter((one) => one.findings?.error || one.findings?.warning);
  const isCounted = recordings.every((one) => one.failed !== null);
  const unsuccessful = [
    failed.length && `${isCounted ? "" : "at least "}${failed.length.toLocaleString("en")} with ${losses(failed)} calls`,
    notBegun.length && `${notBegun.length.toLocaleString("en")} failed before any message`,
  ].filter(Boolean).join(", ");
  /** @param {string} find @param {string} words @param {boolean} isBad @param {string} title */
  const search = (find, words, isBad, title) => {
    const all = { recording: place.recording, view: "search", find, filter: "", order: "", call: 0, other: "" };
    return html`<a class=${`troubled ${isBad ? "bad" : "warn"}`} href=${href(all)} title=${title} onClick=${(/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(all);
      onChosen();
    }}>${words}</a>`;
  };
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = recordings.filter((one) => words.every((word) => one.searched.includes(word)));
  const days = byDay(grouped(fitting, runs), isWhole ? Infinity : FEW);
  const left = fitting.length - days.reduce((sum, [, groups]) => sum + groups.reduce((count, group) => count + group.members.length, 0), 0);
  const isHereLeft = left > 0 && fitting.some((one) => one.id === place.recording) && isLoaded;
  useEffect(() => {
    if (!here() && isHereLeft) setWhole(true);
    here()?.scrollIntoView({ block: "nearest" });
  }, [place.recording, isLoaded, isHereLeft, isShown]);
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const first = /** @type {HTMLElement | null} */ (list.current?.querySelector(".recording"));
    if (event.key === "Enter") first?.click();
    else if (event.key === "ArrowDown") first?.focus();
    else if (event.key === "Escape" && text) setText("");
    else if (event.key === "Escape") (here() ?? first)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return still(html`<nav class="sidebar" id="recordings" aria-label="Recordings" onPointerDown=${press}>
    <div class="choose">
      <h2>Recordings <span class="count" role="status">${words.length ? `${fitting.length.toLocaleString("en")} of ` : ""}${recordings.length.toLocaleString("en")}</span></h2>
      <input id="choose" type="search" value=${text} spellcheck=${false} autocomplete="off" aria-label="Filter the recordings" placeholder="filter: label, server, failed …"
        onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${onKeyDown} />
      ${unsuccessful && !isExported ? search(UNSUCCESSFUL, unsuccessful, isLost, "all calls that failed, were refused or cancelled, or have no answer, and the servers that failed before any message") : null}
      ${broken.length && !isExported ? search(BROKEN, `${recordings.every((one) => one.findings) ? "" : "at least "}${broken.length.toLocaleString("en")} with findings`, broken.some((one) => one.findings?.error), "all that broke the protocol: errors and warnings") : null}
    </div>
    <div class="list" ref=${list}>
      ${!fitting.length && isLoaded ? html`<p class="empty">${recordings.length ? "No recording has these words." : "No recording yet."}</p>` : null}
      ${days.map(([day, groups]) => {
        const isOpen = words.length > 0 || !closed.includes(day);
        const listed = isOpen ? groups : only(groups, place.recording);
        return html`<h3 key=${day}><button type="button" aria-expanded=${isOpen} onClick=${() => setClosed(isOpen ? [...closed, day] : closed.filter((one) => one !== day))}>${day}
          ${isOpen ? null : html` <span class="count">${groups.reduce((count, group) => count + group.members.length, 0).toLocaleString("en")}</span>`}</button></h3>
        ${listed.map((group) => html`<div key=${group.members[0].id} class=${group.title ? "run" : ""}>
          ${group.title ? html`<h4 title=${group.why}>${visible(group.title)} <span class="count">${SURE[group.certainty]}</span></h4>` : null}
          <ul>${group.members.map((one) => html`<li key=${one.id}><${Entry} one=${one} held=${heldIn(held, one.id).length} place=${place} go=${go} onChosen=${onChosen} /></li>`)}</ul>
        </div>`)}`;
      })}
      ${left ? html`<button type="button" class="more" onClick=${() => setWhole(true)}>${left.toLocaleString("en")} more</button>` : null}
    </div>
  </nav>`);
}

/** Return the worst that recordings have, in words: "failed, waiting or cancelled". @param {import("./types.js").Recording[]} failed */
function losses(failed) {
  const found = new Set(failed.map((one) => (one.lost === "unanswered" && one.running ? "waiting" : one.lost)));
  return ["failed", "refused", "unanswered", "waiting", "cancelled", "unreadable"].filter((word) => found.has(word)).join(", ").replace(/, (\w+)$/, " or $1");
}

/** @param {import("./types.js").Recording[]} recordings @param {import("./types.js").Run[]} runs @returns {Group[]} the latest first */
function grouped(recordings, runs) {
  const rest = new Map(recordings.map((one) => [one.id, one]));
  /** @type {Group[]} */
  const groups = [];
  for (const run of runs) {
    const members = run.recordings.flatMap((id) => rest.get(id) ?? []);
    for (const one of members) rest.delete(one.id);
    if (members.length) groups.push({ ...run, members });
  }
  for (const one of rest.values()) groups.push({ title: "", certainty: "", why: "", members: [one] });
  return groups.sort((left, right) => newest(right) - newest(left));
}

/** Return the group that has a recording, with it alone. @param {Group[]} groups @param {string} id @returns {Group[]} */
function only(groups, id) {
  return groups.flatMap((group) => group.members.filter((one) => one.id === id).map((one) => ({ ...group, members: [one] })));
}

/** @param {Group} group */
function newest(group) {
  return Math.max(...group.members.map((one) => one.started_ms));
}

/**
 * Put groups below the day of their latest recording, until there are `most` recordings.
 *
 * @param {Group[]} groups
 * @param {number} most
 * @returns {[string, Group[]][]}
 */
function byDay(groups, most) {
  /** @type {Map<string, Group[]>} */
  const days = new Map();
  let count = 0;
  for (const group of groups) {
    if (count >= most) break;
    count += group.members.length;
    const day = dayOf(newest(group));
    days.set(day, [...(days.get(day) ?? []), group]);
  }
  return [...days];
}

/** Return the day in words. @param {number} ms since 1970 */
function dayOf(ms) {
  if (!ms) return "Time unknown";
  const day = new Date(ms);
  const now = new Date();
  const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
  if (day.toDateString() === now.toDateString()) return "Today";
  if (day.toDateString() === yesterday.toDateString()) return "Yesterday";
  const year = day.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return day.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", year });
}

/**
 * @param {object} props
 * @param {import("./types.js").Recording} props.one
 * @param {number} props.held how many messages its session holds
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {() => void} props.onChosen
 */
function Entry({ one, held, place, go, onChosen }) {
  const isHere = one.id === place.recording;
  const view = place.view === "search" ? "calls" : place.view;
  const target = { recording: one.id, view, filter: "", order: "", call: 0, other: "", find: "" };
  const time = one.started_ms ? new Date(one.started_ms).toTimeString().slice(0, 5) : "";
  const isNamed = one.label === one.server || one.label.endsWith(`(${one.server})`);
  const peers = [one.client, isNamed ? "" : one.server].filter(Boolean).join(" → ") || (one.running ? "" : one.ended);
  return html`<a id=${`recording-${one.id}`} class=${`recording${isHere ? " here" : ""}`} href=${href(target)} aria-current=${isHere ? "page" : undefined} title=${one.path}
    onClick=${(/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(target);
      onChosen();
      focusList();
    }}>
    <span class="words"><strong>${visible(one.label)}</strong><time class="count" datetime=${one.started_at} title=${`${one.started_at.slice(0, 19).replace("T", " ")} UTC`}>${time}</time></span>
    ${held ? html`<span class="warn">❚❚ ${held} held</span>` : null}
    <span class="words who">${visible(peers)}</span>
    <span class="words">
      <span>${one.running ? html`<span class="running">● ${one.state}</span>` : one.state === "ended" ? duration(one.duration_ms) : one.state}</span>
      ${one.failed ? html`<span class=${`${one.lost} ${lossClass(one.lost, one.running)}`}>${one.failed}</span>` : null}
      <${Tally} counts=${one.findings} />
    </span>
  </a>`;
}
