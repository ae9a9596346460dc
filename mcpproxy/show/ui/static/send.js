// @ts-check
/** Send a call again to the same server, edited in a form that is made from the schema of its tool. */
import { post } from "./api.js";
import { visible } from "./format.js";
import { ExactNumber, JsonTree, parse } from "./json_tree.js";
import { html, useMemo, useState } from "./preact.js";

/** @param {any} schema @returns {"string" | "number" | "boolean" | "enum" | "json"} */
function control(schema) {
  if (Array.isArray(schema?.enum) && schema.enum.every((/** @type {any} */ value) => typeof value === "string")) return "enum";
  if (schema?.type === "string") return "string";
  if (schema?.type === "number" || schema?.type === "integer") return "number";
  if (schema?.type === "boolean") return "boolean";
  return "json";
}

/** @param {{summary: import("./types.js").Summary, detail: import("./types.js").Detail}} props */
export function SendAgain({ summary, detail }) {
  const id = summary.recording.id;
  const request = detail.parts.find((part) => part.role === "request");
  const message = useMemo(() => parse(request?.text ?? "")?.value ?? {}, [request]);
  const schema = /** @type {any} */ (detail).tool?.inputSchema;
  const isTool = detail.call.method === "tools/call" && schema?.properties;
  const [text, setText] = useState(JSON.stringify((isTool ? message.params?.arguments : message.params) ?? {}, null, 2));
  const [state, setState] = useState("");
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const value = parse(text)?.value;
  const isHttp = summary.recording.transport === "http";
  const isReadOnly = /** @type {any} */ (detail).tool?.annotations?.readOnlyHint === true || detail.call.method !== "tools/call";
  const [isCallConfirmed, setCallConfirmed] = useState(false);
  const [isTargetConfirmed, setTargetConfirmed] = useState(false);
  const confirmed = (isReadOnly || isCallConfirmed) && (summary.is_own || isTargetConfirmed);
  /** @param {string} name @param {any} member */
  const change = (name, member) => {
    const next = { ...value };
    if (member === undefined) delete next[name];
    else next[name] = member;
    setText(JSON.stringify(next, null, 2));
  };
  /** @param {Event} event */
  const send = async (event) => {
    event.preventDefault();
    setState("sending…");
    setAnswer(null);
    try {
      const params = isTool ? { ...message.params, arguments: value } : value;
      const sent = await post(`/api/recordings/${id}/send`, { call: detail.call.number, params, confirmed });
      setAnswer(sent);
      setState("");
    } catch (error) {
      setState(/** @type {Error} */ (error).message);
    }
  };
  return html`<form class="send" onSubmit=${send} aria-label="Send again">
    <p>Sends to <code>${visible(summary.target.slice(0, 200))}${summary.target.length > 200 ? "…" : ""}</code>, in a new session that is recorded.</p>
    ${isTool && value && typeof value === "object"
      ? Object.entries(schema.properties).map(([name, member]) => html`<${Field} name=${name} schema=${member} value=${value[name]} isRequired=${schema.required?.includes(name)} onChange=${(/** @type {any} */ next) => change(name, next)} />`)
      : null}
    <label>${isTool ? "arguments" : "params"} as JSON
      <textarea rows="6" spellcheck=${false} value=${text} aria-invalid=${value === undefined} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></label>
    ${value === undefined ? html`<p class="problem">This is not JSON yet.</p>` : null}
    ${summary.is_own
      ? null
      : html`<p>Somebody else may have written this recording, and with it what ${isHttp ? "the call is sent to" : `runs here as you${summary.cwd ? html`, in <code>${visible(summary.cwd)}</code>` : ""}`}:</p>
          <pre tabindex="0">${visible(summary.target)}</pre>
          <label class="confirm"><input type="checkbox" checked=${isTargetConfirmed} onChange=${(/** @type {any} */ event) => setTargetConfirmed(event.target.checked)} /> I have read ${isHttp ? "this address. Send to it." : "this command. Run it."}</label>`}
    ${isReadOnly ? null : html`<label class="confirm"><input type="checkbox" checked=${isCallConfirmed} onChange=${(/** @type {any} */ event) => setCallConfirmed(event.target.checked)} /> The tool does not say that it only reads (<code>readOnlyHint</code>). Send it all the same.</label>`}
    <button type="submit" disabled=${value === undefined || !confirmed}>Send</button>
    <span role="status" class=${state && state !== "sending…" ? "problem" : "count"}>${state}</span>
    ${answer ? html`<${SideBySide} before=${detail.parts.find((part) => part.role === "answer")?.text ?? ""} answer=${answer} />` : null}
  </form>`;
}

/** @param {{name: string, schema: any, value: any, isRequired: boolean, onChange: (value: any) => void}} props */
function Field({ name, schema, value, isRequired, onChange }) {
  const kind = control(schema);
  const hint = schema?.description ? html`<span class="count">${visible(schema.description)}</span>` : null;
  const words = html`<span class="j-name">${visible(name)}</span>${isRequired ? " (required)" : ""}`;
  if (kind === "boolean") {
    return html`<label class="confirm"><input type="checkbox" checked=${value === true} onChange=${(/** @type {any} */ event) => onChange(event.target.checked)} /> ${words} ${hint}</label>`;
  }
  if (kind === "enum") {
    return html`<label>${words} ${hint}<select value=${value ?? ""} onChange=${(/** @type {any} */ event) => onChange(event.target.value || undefined)}>
      ${["", ...schema.enum].map((one) => html`<option key=${one} value=${one}>${visible(one)}</option>`)}</select></label>`;
  }
  if (kind === "json") return null;
  return html`<label>${words} ${hint}<input type=${kind === "number" ? "number" : "text"} step="any" value=${value instanceof ExactNumber ? value.source : (value ?? "")} onInput=${(/** @type {any} */ event) => {
    const text = event.target.value;
    onChange(kind === "number" ? parse(text)?.value : text);
  }} /></label>`;
}

/** @param {{before: string, answer: any}} props */
function SideBySide({ before, answer }) {
  const old = parse(before);
  const next = parse(answer.text ?? "");
  return html`<div class="beside">
    <div><h4>recorded</h4>${old ? html`<${JsonTree} value=${old.value} label="the recorded answer" />` : html`<p class="count">no answer</p>`}</div>
    <div><h4>now <span class="count">${answer.took}</span></h4>${next ? html`<${JsonTree} value=${next.value} label="the new answer" />` : html`<p class="count">${answer.text ?? "no answer"}</p>`}
      <a href=${`/?recording=${answer.recording}#call=${answer.call}`}>the new recording</a></div>
  </div>`;
}
