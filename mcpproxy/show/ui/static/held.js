// @ts-check
/** The messages that breakpoints hold in running sessions, each with its time, to read, edit and release. */
import { ApiError, get, post, subscribe } from "./api.js";
import { duration, plural, size, visible } from "./format.js";
import { parse } from "./json_tree.js";
import { takesText } from "./keys.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { useStill } from "./still.js";

const TICK_MS = 500;
const SHORT_MS = 10_000;
const MANY = 200;
/** How long the page shows the last action. */
const SAID_MS = 10_000;

/** @typedef {import("./types.js").HeldMessage} HeldMessage */
/** @typedef {import("./types.js").HeldContext} HeldContext */
/**
 * @typedef {object} Held What breakpoints hold, by the last event of the server.
 * @property {boolean} may_release
 * @property {import("./types.js").HeldSession[]} sessions
 * @property {number} at when the event came, in milliseconds of `performance.now()`
 * @property {boolean} isLost whether the server of the page does not answer any more
 */
/** @typedef {{do: "resume" | "drop" | "edit" | "error", text?: string, anyway?: boolean, code?: number, message?: string}} Answer */

/** @type {Held} */
export const NOTHING = { may_release: false, sessions: [], at: 0, isLost: false };

/** @param {Held} held @param {string} recording @returns {HeldMessage[]} */
export function heldIn(held, recording) {
  return held.sessions.find((one) => one.recording === recording)?.held ?? [];
}

/** @param {Held} held */
export function heldCount(held) {
  return held.sessions.reduce((count, one) => count + one.held.length, 0);
}

/** Give the focus to the first message that is held. */
export function focusHeld() {
  const panel = /** @type {HTMLElement | null} */ (document.querySelector(".held"));
  (toggles(panel)[0] ?? panel)?.focus();
}

/**
 * Subscribe to changes of the folder and of the held messages.
 *
 * @param {(now: {version: string}) => void} onRecordings called with the version of the list of recordings, at first and when it changes
 * @param {(change: (before: Held) => Held) => void} setHeld
 */
export function subscribeFolder(onRecordings, setHeld) {
  return subscribe("/api/live", {}, {
    recordings: onRecordings,
    held: (data) => setHeld(() => ({ ...data, at: performance.now(), isLost: false })),
    opened: () => setHeld((before) => ({ ...before, isLost: false })),
    lost: () => setHeld((before) => ({ ...before, isLost: true })),
    failed: () => setHeld((before) => ({ ...before, isLost: true })),
  });
}

/**
 * The panel above the views, of one recording. An open message stays when it is not held any more, and says so.
 *
 * @param {object} props
 * @param {Held} props.held
 * @param {import("./types.js").Recording[]} props.recordings
 * @param {import("./types.js").Recording | undefined} props.here the recording that is shown
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function HeldPanel({ held, recordings, here, go }) {
  const id = here?.id ?? "";
  const messages = heldIn(held, id);
  const problem = held.sessions.find((one) => one.recording === id)?.problem ?? "";
  const elsewhere = held.sessions.filter((one) => one.recording !== id && one.held.length);
  const [open, setOpen] = useState(/** @type {Map<number, HeldMessage>} */ (new Map()));
  const [said, setSaid] = useState("");
  const [, setNow] = useState(0);
  const context = useHeldContext(id, messages);
  const { press, still } = useStill();
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const next = useRef(/** @type {number | null} */ (null));
  /** What this page releases now: nobody has to be told that it is not held any more. */
  const mine = useRef(/** @type {Set<number>} */ (new Set()));
  const numbers = new Set(messages.map((one) => one.number));
  const gone = [...open.values()].filter((one) => !numbers.has(one.number) && !mine.current.has(one.number));
  const rows = [...messages.slice(0, MANY), ...gone].sort((left, right) => left.number - right.number);
  const isShown = rows.length > 0 || elsewhere.length > 0 || problem !== "" || said !== "";

  useEffect(() => {
    if (!messages.length) return undefined;
    const timer = setInterval(() => setNow((count) => count + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [messages.length > 0]);
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => setSaid(""), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  // After a release the focus goes from the row of the message to the next row. This waits until the row is gone:
  // until then rows may move, and a row that moves loses the focus.
  useLayoutEffect(() => {
    const released = next.current;
    if (released === null || rows.some((one) => one.number === released)) return;
    next.current = null;
    if (document.activeElement !== document.body && !document.activeElement?.closest(`[data-number="${released}"]`)) return;
    const buttons = toggles(list.current).filter((one) => numberOf(one) !== released);
    (buttons.find((one) => numberOf(one) > released) ?? buttons.at(-1) ?? list.current)?.focus();
  });
  if (!isShown) return still(null);

  /** @param {HeldMessage} message @param {boolean} isOpen */
  const show = (message, isOpen) =>
    setOpen((before) => {
      const after = new Map(before);
      if (isOpen) after.set(message.number, message);
      else after.delete(message.number);
      return after;
    });
  /** @param {number[]} wanted @param {Answer} answer @returns {Promise<string>} why nothing was released; empty if something was */
  const release = async (wanted, answer) => {
    const released = wanted.filter((number) => !mine.current.has(number)); // a key may be pressed twice
    if (!released.length) return "";
    for (const number of released) mine.current.add(number);
    try {
      const result = await post(`/api/recordings/${id}/held`, { ...answer, numbers: released });
      next.current = released.length === 1 ? released[0] : null;
      setOpen((before) => new Map([...before].filter(([number]) => !released.includes(number))));
      const what = released.length === 1 ? `Message ${released[0]} was ${DONE[answer.do]}.` : `${plural(result.released, "message")} resumed.`;
      setSaid(result.missing ? `${what} ${plural(result.missing, "message")} had been released before.` : what);
      return "";
    } catch (error) {
      for (const number of released) mine.current.delete(number);
      if (error instanceof ApiError) return error.message;
      return "The server of this page does not answer. The message is held until its time is over; mcpproxy breakpoints can answer it.";
    }
  };
  const resumeAll = async () => {
    const why = await release(messages.map((one) => one.number), { do: "resume" });
    if (why) setSaid(why);
  };
  const age = performance.now() - held.at;
  const now = here ? Date.now() - here.started_ms : 0;
  return still(html`<section class="held" aria-labelledby="held-title" ref=${list} tabindex="-1" onPointerDown=${press} onKeyDown=${(/** @type {KeyboardEvent} */ event) => onKeyDown(event, list.current)}>
    <header>
      <h2 id="held-title"><span aria-hidden="true">❚❚</span> ${messages.length ? `${plural(messages.length, "message")} held` : "Nothing is held here"}</h2>
      ${messages.length > 1 && held.may_release ? html`<button type="button" onClick=${resumeAll}>Resume all ${messages.length}</button>` : null}
      <span role="status" class="count">${said}</span>
      <span class="space"></span>
      ${elsewhere.map((one) => html`<button type="button" class="link" onClick=${() => go({ recording: one.recording, call: 0, filter: "" })}>${one.held.length} held in ${visible(recordings.find((other) => other.id === one.recording)?.server || "another session")}</button>`)}
    </header>
    ${held.isLost ? html`<p class="problem" role="alert">The server of this page does not answer. What is held stays held until its time is over; <code>mcpproxy breakpoints</code> in a terminal can answer it.</p>` : null}
    ${problem ? html`<p class="problem" role="alert">${visible(problem)}; its process may be stopped.</p>` : null}
    ${messages.length && !held.may_release ? html`<p>This page only shows: it was started without <code>--allow-send</code>. <code>mcpproxy ui --allow-send</code> can answer from here, and <code>mcpproxy breakpoints</code> in a terminal.</p>` : null}
    <ul>${rows.map(
      (one) => html`<${HeldRow} key=${`${id}/${one.number}`} id=${id} message=${one} age=${age} now=${now} context=${context} isHeld=${numbers.has(one.number)}
        isRunning=${held.sessions.some((each) => each.recording === id)} isOpen=${open.has(one.number)} show=${show} release=${held.may_release ? release : null} go=${go} />`,
    )}</ul>
    ${messages.length > MANY ? html`<p class="count">${plural(messages.length - MANY, "more message")}; these come first.</p>` : null}
  </section>`);
}

/** @type {Record<Answer["do"], string>} */
const DONE = { resume: "resumed", drop: "dropped", edit: "given as edited", error: "answered with an error" };
/** @type {Record<string, string>} */
const KINDS = { request: "request", answer: "answer", notification: "notification", batch: "batch", "not-a-message": "not a message" };

/** Return the first button of each row. @param {HTMLElement | null} list @returns {HTMLElement[]} */
function toggles(list) {
  return [...(list?.querySelectorAll(".held-row > .j-toggle") ?? [])].map((one) => /** @type {HTMLElement} */ (one));
}

/** Return the number of the message in whose row an element is. @param {Element} element */
function numberOf(element) {
  return Number(element.closest("[data-number]")?.getAttribute("data-number"));
}

/**
 * Keys on a row that has the focus: `r`, `d`, `e` and `x` press its buttons, `j` and `k` go to another row.
 *
 * @param {KeyboardEvent} event
 * @param {HTMLElement | null} list
 */
function onKeyDown(event, list) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || takesText(target)) return;
  const buttons = toggles(list);
  const row = target.closest("[data-number]");
  const index = buttons.findIndex((one) => row?.contains(one));
  const step = /** @type {Record<string, number>} */ ({ j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 })[event.key];
  const button = step ? buttons[Math.max(0, index + step)] : /** @type {HTMLElement | null | undefined} */ (row?.querySelector(`[data-key="${CSS.escape(event.key)}"]`));
  if (!button) return;
  event.preventDefault();
  event.stopPropagation();
  if (step) button.focus();
  else button.click();
}

/**
 * What the recording knows about the held messages. It is requested again until it knows every one.
 *
 * @param {string} id
 * @param {HeldMessage[]} messages
 * @returns {HeldContext | null}
 */
function useHeldContext(id, messages) {
  const [context, setContext] = useState(/** @type {HeldContext | null} */ (null));
  const numbers = messages.map((one) => one.number).join();
  useEffect(() => {
    if (!numbers) return undefined;
    let isOver = false;
    let tries = 0;
    const ask = async () => {
      const answer = /** @type {HeldContext | null} */ (await get(`/api/recordings/${id}/held`).catch(() => null));
      if (isOver) return;
      if (answer) setContext(answer);
      tries += 1;
      const isMissing = !answer || messages.some((one) => !(one.number in answer.calls));
      if (isMissing && tries < 10) setTimeout(ask, 500 * tries);
    };
    ask();
    return () => {
      isOver = true;
    };
  }, [numbers]);
  return context;
}

/**
 * @param {object} props
 * @param {string} props.id
 * @param {HeldMessage} props.message
 * @param {number} props.age milliseconds since the server sent `message`
 * @param {number} props.now milliseconds since the start of the recording
 * @param {HeldContext | null} props.context
 * @param {boolean} props.isHeld
 * @param {boolean} props.isRunning
 * @param {boolean} props.isOpen
 * @param {(message: HeldMessage, isOpen: boolean) => void} props.show
 * @param {((numbers: number[], answer: Answer) => Promise<string>) | null} props.release
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
function HeldRow({ id, message, age, now, context, isHeld, isRunning, isOpen, show, release, go }) {
  const [mode, setMode] = useState("");
  const [problem, setProblem] = useState("");
  const call = context?.calls[message.number];
  const { number, sender, kind } = message;
  /** @param {Answer} answer */
  const answer = async (answer) => {
    setProblem("");
    const why = release ? await release([number], answer) : "";
    if (why) {
      show(message, true);
      setProblem(why);
    }
  };
  /** @param {string} wanted */
  const open = (wanted) => {
    const isSame = isOpen && mode === wanted;
    show(message, !isSame);
    setMode(isSame ? "" : wanted);
  };
  const isRequest = kind === "request";
  const hasError = isRequest || kind === "answer";
  const what = [message.method || KINDS[kind] || kind, message.target].filter(Boolean).join(" ");
  return html`<li data-number=${number} class=${sender}>
    <div class="held-row">
      <button type="button" class="j-toggle" aria-expanded=${isOpen} data-key="s" onClick=${() => open("")}>
        <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span>${" "}<span class="count">${number}</span>${" "}
        <span class="held-way">${sender === "client" ? "client → server" : "client ← server"}</span>${" "}
        <strong>${visible(what)}</strong>${message.id === null ? null : html`${" "}<span class="count">id ${visible(message.id)}</span>`}
      </button>
      <code class="held-preview">${call?.preview || visible(message.preview)}</code>
      ${isHeld ? html`<${Times} message=${message} age=${age} now=${now} call=${call} context=${context} />` : null}
      <span class="held-actions">
        ${release && isHeld ? html`
          <button type="button" data-key="r" aria-label=${`Resume message ${number}`} onClick=${() => answer({ do: "resume" })}>Resume</button>
          <button type="button" data-key="e" aria-label=${`Edit message ${number}`} aria-expanded=${isOpen && mode === "edit"} onClick=${() => open("edit")}>Edit…</button>
          <button type="button" data-key="d" aria-label=${`Drop message ${number}`} onClick=${() => answer({ do: "drop" })}>Drop</button>
          ${hasError ? html`<button type="button" data-key="x" aria-label=${`${isRequest ? "Answer" : "Replace"} message ${number} with an error`} aria-expanded=${isOpen && mode === "error"} onClick=${() => open("error")}>Error…</button>` : null}
        ` : null}
        <span class="held-call">${call ? html`<button type="button" class="link" onClick=${() => go({ view: "calls", call: call.call, filter: "" })}>call ${call.call}</button>` : null}</span>
      </span>
    </div>
    ${message.findings.map((found) => html`<p class="held-found"><strong>${visible(found.rule)}</strong>${" "}${visible(found.message)}</p>`)}
    ${isHeld ? null : html`<p class="problem" role="alert">${isRunning ? "This message is not held any more: somebody released it, its time was over, or its connection has ended." : "The session has ended, and with it this message is not held any more."} Its call in the recording says what was given. <button type="button" class="link" onClick=${() => show(message, false)}>Close</button></p>`}
    ${problem && isHeld ? html`<p class="problem" role="alert">${visible(problem)}</p>` : null}
    ${isOpen && mode === "error" && release ? html`<${ErrorForm} isRequest=${isRequest} isHeld=${isHeld} answer=${answer} close=${() => open(mode)} />` : null}
    ${isOpen ? html`<${HeldText} id=${id} number=${number} isEdited=${mode === "edit" && release !== null} isHeld=${isHeld} answer=${answer} close=${() => open(mode)} />` : null}
  </li>`;
}

/**
 * How long the breakpoint still holds the message, and when the peer that waits for an answer probably gives up.
 *
 * @param {object} props
 * @param {HeldMessage} props.message
 * @param {number} props.age
 * @param {number} props.now
 * @param {{call: number, started_ms: number} | undefined} props.call
 * @param {HeldContext | null} props.context
 */
function Times({ message, age, now, call, context }) {
  const left = Math.max(0, message.left_ms - age);
  const { kind, sender } = message;
  const waits = kind === "request" ? sender : kind === "answer" ? (sender === "client" ? "server" : "client") : null;
  const limit = waits && context ? context.limits[waits] : null;
  // The peer has waited since the request, whose time only the recording knows.
  const waited = kind === "request" ? message.held_ms + age : call ? now - call.started_ms : null;
  const rest = limit?.seconds && waited !== null ? limit.seconds * 1000 - waited : null;
  return html`<span class="held-times">
    <span class=${left < SHORT_MS ? "bad" : ""} title="--break-timeout and --break-then">held ${seconds(message.held_ms + age)}, ${THEN[message.then] ?? message.then} in ${seconds(left)}</span>
    ${limit && waited !== null
      ? html`<span class=${rest !== null && rest < SHORT_MS ? "bad" : "count"} title=${limit.why}>${rest === null ? `the ${waits} has no known limit` : rest > 0 ? `${waits} gives up in about ${seconds(rest)}` : `the ${waits} has probably given up, ${seconds(-rest)} ago`}</span>`
      : null}
  </span>`;
}

/** @type {Record<string, string>} */
const THEN = { pass: "passes", drop: "is dropped", error: "becomes an error" };

/** @param {number} ms */
function seconds(ms) {
  return ms < 60_000 ? `${Math.floor(ms / 1000)} s` : duration(Math.floor(ms / 1000) * 1000);
}

/**
 * @param {object} props
 * @param {string} props.id
 * @param {number} props.number
 * @param {boolean} props.isEdited whether the text can be edited
 * @param {boolean} props.isHeld
 * @param {(answer: Answer) => void} props.answer
 * @param {() => void} props.close
 */
function HeldText({ id, number, isEdited, isHeld, answer, close }) {
  const [found, setFound] = useState(/** @type {{text: string, length: number} | null} */ (null));
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [anyway, setAnyway] = useState(false);
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => {
    get(`/api/recordings/${id}/held/${number}`).then(
      (answer) => {
        setFound(answer);
        setText(answer.text);
      },
      (error) => setProblem(error.message),
    );
  }, [id, number]);
  useLayoutEffect(() => {
    // The text may come late, when the reader is at another message. Not after the next picture: who types at once
    // would have the first letters in one field and the others here.
    const { activeElement, body } = document;
    if (activeElement === body || activeElement?.closest(`[data-number="${number}"]`)) area.current?.focus();
  }, [found !== null, isEdited]);
  if (problem) return html`<p class="problem" role="alert">${visible(problem)}</p>`;
  if (!found) return html`<p class="count" role="status">loading</p>`;
  const isWhole = found.length === found.text.length;
  if (!isEdited || !isWhole) {
    return html`${isEdited ? html`<p class="problem">This message is too long to edit here: <code>mcpproxy breakpoints edit ${number}</code> opens it in an editor.</p>` : null}
      ${isWhole ? null : html`<p class="count">The first ${size(found.text.length)} of ${size(found.length)}.</p>`}
      <pre tabindex="0" aria-label=${`Message ${number}`}>${visible(text)}</pre>`;
  }
  const isJson = parse(text) !== null;
  const isSame = text === found.text.replace(/\r\n?/g, "\n");
  /** @param {KeyboardEvent} event */
  const onKeys = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      /** @type {HTMLElement | null | undefined} */ (area.current?.closest("li")?.querySelector('[data-key="e"]'))?.focus();
      close();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      area.current?.form?.requestSubmit();
    }
  };
  return html`<form class="send" aria-label=${`Edit message ${number}`} onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    if (isHeld && (isJson || anyway)) answer({ do: "edit", text, anyway });
  }}>
    <label>Message ${number}
      <textarea ref=${area} rows=${Math.min(24, text.split("\n").length + 1)} spellcheck=${false} value=${text} aria-invalid=${!isJson} onKeyDown=${onKeys}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></label>
    ${isJson ? null : html`<p class="problem" role="status">This is not JSON.</p><label class="confirm"><input type="checkbox" checked=${anyway} onChange=${(/** @type {any} */ event) => setAnyway(event.target.checked)} /> Give it all the same.</label>`}
    <p class="actions"><button type="submit" disabled=${!isHeld || (!isJson && !anyway)}>Give ${isSame ? "it unchanged" : "the edited message"}</button>
    <button type="button" disabled=${isSame} onClick=${() => setText(found.text)}>Undo the edit</button>
    <span class="count">${isSame ? "Nothing is edited; its bytes stay." : "What is not edited keeps its bytes."} <kbd>Ctrl</kbd>+<kbd>Enter</kbd> gives it, <kbd>Escape</kbd> leaves.</span></p>
  </form>`;
}

/** @param {{isRequest: boolean, isHeld: boolean, answer: (answer: Answer) => void, close: () => void}} props */
function ErrorForm({ isRequest, isHeld, answer, close }) {
  const [code, setCode] = useState("-32603");
  const [text, setText] = useState("Internal error");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => field.current?.focus(), []);
  return html`<form class="send" aria-label=${isRequest ? "Answer with an error" : "Replace by an error"}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      /** @type {HTMLElement | null | undefined} */ (field.current?.closest("li")?.querySelector('[data-key="x"]'))?.focus();
      close();
    }}
    onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      if (isHeld) answer({ do: "error", code: Number(code), message: text });
    }}>
    <label>code <input type="number" step="1" required value=${code} onInput=${(/** @type {any} */ event) => setCode(event.target.value)} /></label>
    <label>message <input type="text" ref=${field} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
    <p class="count">${isRequest ? "Who sent the request gets this answer, and the request is not given." : "This error takes the place of the answer."}</p>
    <button type="submit" disabled=${!isHeld}>${isRequest ? "Answer with this error" : "Replace by this error"}</button>
  </form>`;
}
