// @ts-check
/** The page: recordings on the left, one of eight views of the chosen one on the right. */
import { usePlace } from "./address.js";
import { get, isExported } from "./api.js";
import { Calls } from "./calls.js";
import { Findings } from "./findings.js";
import { Tally, peers, plural, state, visible } from "./format.js";
import { HeldPanel, NOTHING, focusHeld, heldCount, subscribeFolder } from "./held.js";
import { Help } from "./help.js";
import { needs } from "./keys.js";
import { lazy } from "./lazy.js";
import { useCurrentSummary, useLive } from "./live.js";
import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "./preact.js";
import { useRemembered } from "./remembered.js";
import { Search, SearchBox } from "./search.js";
import { Sidebar } from "./sidebar.js";
import { Welcome } from "./welcome.js";

/** @type {[string, string, any][]} */
const VIEWS = [
  ["calls", "Calls", Calls],
  ["timeline", "Timeline", lazy(() => import("./timeline.js").then((module) => module.Timeline))],
  ["findings", "Findings", Findings],
  ["tools", "Tools", lazy(() => import("./tools.js").then((module) => module.Tools))],
  ["stats", "Stats", lazy(() => import("./stats.js").then((module) => module.Stats))],
  ...(isExported ? [] : /** @type {[string, string, any][]} */ ([
    ["compare", "Compare", lazy(() => import("./compare.js").then((module) => module.Compare))],
  ])),
  ["prompt", "Prompt", lazy(() => import("./prompt.js").then((module) => module.Prompt))],
  ...(isExported ? [] : /** @type {[string, string, any][]} */ ([
    ["works-in", "Works in", lazy(() => import("./works_in.js").then((module) => module.WorksIn))],
  ])),
];
const THEMES = ["system", "dark", "light"];

function App() {
  const [place, go] = usePlace();
  const [folder, setFolder] = useState({ recordings: /** @type {import("./types.js").Recording[]} */ ([]), runs: /** @type {import("./types.js").Run[]} */ ([]), folder: "", below: /** @type {import("./types.js").Below} */ ({ folders: [], more: 0 }), isLoaded: false });
  const [begun, setBegun] = useState(""); // the id of the session that began last, since the page was opened
  const known = useRef(/** @type {Set<string> | null} */ (null));
  const [isMenu, setMenu] = useState(false); // in a narrow window, whether the recordings are shown
  const [asked, setAsked] = useState(0);
  const [error, setError] = useState("");
  const [held, setHeld] = useState(NOTHING);
  const [isHelp, setHelp] = useState(false);
  const [paused, setPaused] = useState(false);
  const [sidebar, setSidebar] = useRemembered("sidebar", "shown");
  const [theme, setTheme] = useRemembered("theme", "system");
  const [fault] = useErrorBoundary();

  // What the rows wait for is requested before the browser paints what there is so far.
  useLayoutEffect(() => {
    /** @param {any} answer */
    const show = (answer) => {
      /** @type {import("./types.js").Recording[]} */
      const recordings = answer.recordings;
      const newest = recordings.find((one) => one.running && known.current && !known.current.has(one.id));
      known.current = new Set(recordings.map((one) => one.id));
      setError("");
      if (newest) setBegun(newest.id);
      setFolder({ ...answer, isLoaded: true });
    };
    /** The versions of the list that is shown, and of the one that the stream told last. */
    let [shown, told] = ["", ""];
    let isLoading = false;
    const load = async () => {
      isLoading = true;
      const before = told;
      await get("/api/recordings").then(
        (answer) => {
          shown = answer.version;
          show(answer);
        },
        (problem) => {
          shown = "";
          setError(problem.message);
        },
      );
      isLoading = false;
      if (told !== before && told !== shown) load(); // the list has changed while it was on its way
    };
    /** @param {{version: string}} now */
    const renew = ({ version }) => {
      told = version;
      if (!isLoading && version !== shown) load();
    };
    load();
    return isExported ? undefined : subscribeFolder(renew, setHeld);
  }, []);
  useLayoutEffect(() => {
    const latest = folder.recordings.find((one) => !one.is_empty || one.has_not_begun) ?? folder.recordings[0];
    if (!place.recording && place.view !== "search" && latest) go({ recording: latest.id }, true); // back leads out of the page
  }, [folder.recordings.length, place.recording, place.view]);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useLayoutEffect(() => {
    root.classList.toggle("no-sidebar", sidebar === "away");
  }, [sidebar]);
  const putSidebar = () => setSidebar(sidebar === "away" ? "shown" : "away");
  useEffect(() => {
    /** @param {number} step */
    const other = (step) => {
      const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".sidebar .recording")]);
      links[links.findIndex((one) => one.hasAttribute("aria-current")) + step]?.click();
    };
    /** @param {KeyboardEvent} event */
    const onKeyDown = (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || needs(target, event.key)) return;
      /** @type {Record<string, () => void>} */
      const keys = {
        "/": () => /** @type {HTMLElement} */ (document.querySelector("#filter"))?.focus(),
        "?": () => setHelp(true),
        a: () => /** @type {HTMLElement} */ (document.querySelector("#find"))?.focus(),
        b: focusHeld,
        l: () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".top .menu-button, .top .sidebar-button")]).find((one) => one.offsetParent)?.click(),
        p: () => setPaused((now) => !now),
        f: () => /** @type {HTMLElement} */ ([...document.querySelectorAll(".filter .chip")].find((chip) => chip.textContent === "follow"))?.click(),
        t: () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]),
        "[": () => other(-1),
        "]": () => other(1),
      };
      const view = VIEWS[Number(event.key) - 1];
      if (view) keys[event.key] = () => go({ view: view[0], find: "" });
      const grid = /** @type {HTMLElement | null} */ (document.querySelector(".grid, .found"));
      if (grid && /^([jkgG]|ArrowUp|ArrowDown|Enter)$/.test(event.key)) {
        keys[event.key] = () => {
          grid.focus();
          grid.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
        };
      }
      // The focus is nowhere for a moment when the detail of another call takes its place.
      const detail = document.querySelector(".detail");
      if (detail && !root.classList.contains("menu")) keys.Escape = () => detail.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
      if (event.key in keys) {
        event.preventDefault();
        keys[event.key]();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [folder.recordings, place.recording, theme]);

  useEffect(() => {
    root.classList.toggle("menu", isMenu);
    if (isMenu) /** @type {HTMLElement | null} */ (document.querySelector(".recording.here") ?? document.querySelector("#choose"))?.focus();
    /** @param {KeyboardEvent} event */
    const onKeyDown = (event) => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      setMenu(false);
      /** @type {HTMLElement | null} */ (document.querySelector(".menu-button"))?.focus();
    };
    if (isMenu) addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [isMenu]);

  const count = heldCount(held);
  useEffect(() => {
    // The tab shows the title, so the title says what is held even if another tab is in front.
    document.title = document.title.replace(/^(\(\d+ held\) )?/, count ? `(${count} held) ` : "");
  }, [count]);
  const isRefused = error !== "" && !folder.isLoaded;
  const chosen = folder.recordings.find((one) => one.id === place.recording);
  const fresh = begun === place.recording ? undefined : folder.recordings.find((one) => one.id === begun);
  return html`
    <a class="skip" href="#main">To the calls</a>
    <header class="top">
      ${isExported || isRefused ? null : html`<button type="button" class="menu-button" aria-expanded=${isMenu} aria-controls="recordings" onClick=${() => setMenu(!isMenu)}>☰ Recordings</button>
        <button type="button" class="sidebar-button" aria-expanded=${sidebar !== "away"} aria-controls="recordings" aria-label="List of recordings" title="the list of recordings (l)" onClick=${putSidebar}>☰</button>`}
      <h1>mcpproxy</h1>
      <nav aria-label="Views"><ul class="tabs">${VIEWS.map(
        ([name, words], index) => html`<li><button type="button" aria-current=${place.view === name ? "page" : undefined} title=${`key ${index + 1}`} onClick=${() => go({ view: name, find: "" })}>${words}</button></li>`,
      )}</ul></nav>
      ${isExported || isRefused ? html`<span class="space"></span>` : html`<${SearchBox} place=${place} go=${go} onAsked=${() => setAsked((before) => before + 1)} />`}
      ${count ? html`<button type="button" class="chip held-chip" onClick=${focusHeld}>❚❚ ${count} held <kbd>b</kbd></button>` : null}
      ${paused ? html`<button type="button" class="chip" aria-pressed="true" onClick=${() => setPaused(false)}>paused</button>` : null}
      <button type="button" onClick=${() => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])}>◐<span class="wide-only"> theme: ${theme}</span></button>
      <button type="button" aria-haspopup="dialog" onClick=${() => setHelp(true)}><span class="wide-only">help </span><kbd>?</kbd></button>
    </header>
    ${isExported || isRefused ? null : html`<${Sidebar} isShown=${sidebar !== "away"} isLoaded=${folder.isLoaded} recordings=${folder.recordings} runs=${folder.runs} held=${held} place=${place} go=${go} onChosen=${() => {
      root.classList.remove("menu"); // now, so that the list can take the focus
      setMenu(false);
    }} />`}
    <main id="main" tabindex="-1">
      ${fault ? html`<p class="problem">The page failed: ${String(fault)}. Reload it, and please report what led here.</p>` : null}
      ${error ? html`<p class="problem">${error}</p>` : null}
      <${HeldPanel} key=${place.recording} held=${held} recordings=${folder.recordings} here=${chosen} go=${go} />
      ${place.view === "search" && !isExported
        ? html`<${Search} key=${`${asked} ${place.find}`} recordings=${folder.recordings} place=${place} go=${go} />`
        : place.recording && !isRefused
        ? html`<${OneRecording} key=${place.recording} folder=${folder} place=${place} go=${go} paused=${paused} state=${chosen?.state ?? ""} />`
        : folder.isLoaded && !folder.recordings.length ? html`<${Welcome} folder=${folder.folder} below=${folder.below} />` : null}
      <div role="status">${fresh ? html`<p class="notice">new session: <strong>${visible(fresh.label)}</strong>
        <button type="button" onClick=${() => go({ recording: fresh.id, view: "calls", filter: "", order: "", call: 0, other: "", find: "" })}>open</button>
        <button type="button" aria-label="Close this notice" onClick=${() => setBegun("")}>✕</button></p>` : null}</div>
    </main>
    ${isHelp ? html`<${Help} onClose=${() => setHelp(false)} />` : null}`;
}

/**
 * @param {object} props
 * @param {{recordings: import("./types.js").Recording[], runs: import("./types.js").Run[]}} props.folder
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {boolean} props.paused
 * @param {string} props.state the state of the recording in the list of recordings
 */
function OneRecording({ folder, place, go, paused, state }) {
  const [summary, setSummary] = useState(/** @type {import("./types.js").Summary | null} */ (null));
  const [error, setError] = useState("");
  useLayoutEffect(() => {
    if (summary) return;
    // A recording that has just begun may have no file yet. It is requested again when its state changes.
    get(`/api/recordings/${place.recording}`).then(
      (found) => {
        setError("");
        setSummary(found);
      },
      (problem) => setError(problem.message),
    );
  }, [place.recording, state]);
  if (error && state === "starting") return html`<p class="empty" role="status">The session begins; nothing was sent yet.</p>`;
  if (error) return html`<p class="problem">${error}</p>`;
  if (!summary) return html`<p class="empty" role="status">reading the recording…</p>`;
  return html`<${Opened} summary=${summary} folder=${folder} place=${place} go=${go} paused=${paused} />`;
}

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {{recordings: import("./types.js").Recording[], runs: import("./types.js").Run[]}} props.folder
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 * @param {boolean} props.paused
 */
function Opened({ summary, folder, place, go, paused }) {
  const live = useLive(summary, paused);
  const current = useCurrentSummary(summary, live);
  const [, words, View] = VIEWS.find(([name]) => name === place.view) ?? VIEWS[0];
  const run = folder.runs.find((one) => one.recordings.includes(summary.recording.id));
  const together = run ? folder.recordings.filter((one) => run.recordings.includes(one.id)) : [summary.recording];
  // The list of the folder is the first to say how a session has ended.
  const recording = folder.recordings.find((one) => one.id === summary.recording.id) ?? current.recording;
  const sessions = current.sessions.filter((one) => one.client || one.server || one.name);
  const { failed, refused, unanswered, unreadable, cancelled } = current.calls;
  useEffect(() => {
    const mark = /^\(\d+ held\) /.exec(document.title)?.[0] ?? "";
    document.title = `${mark}${recording.label} – mcpproxy`;
  }, [recording.id, recording.label]);
  return html`
    <p class="about">
      <strong>${visible(recording.label)}</strong>
      ${sessions.slice(0, 3).map((one) => html`<span>${peers(one, live.running)}${one.name ? html` <button type="button" class="link" title="only this session" onClick=${() => go({ view: "calls", filter: `session:${one.name}`, call: 0 })}>${one.name}</button>` : null}</span>`)}
      ${sessions.length > 3 ? html`<span>${plural(sessions.length - 3, "more session")}</span>` : null}
      <span>${live.running ? html`<span class="running">● running</span>` : html`<span class=${recording.has_not_begun ? "bad" : ""}>${visible(recording.ended)}</span>`}</span>
      ${failed ? html`<span class="bad">${plural(failed, "failed call")}</span>` : null}
      ${Object.entries({ refused, unanswered, unreadable, cancelled }).map(([name, number]) => {
        const [, said, kind] = state(name, live.running);
        return number ? html`<span class=${kind}>${number.toLocaleString("en")} ${said}</span>` : null;
      })}
      <${Tally} counts=${current.findings} />
      ${current.notes.map((note) => html`<span class="problem">${visible(note)}</span>`)}
    </p>
    <h2 class="hidden">${words}</h2>
    <${View} summary=${summary} recording=${recording} sessions=${current.sessions} live=${live} recordings=${place.view === "compare" ? folder.recordings : together} place=${place} go=${go} />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.classList.toggle("exported", isExported);
render(html`<${App} />`, root);
