// @ts-check
/** A request and its answer, without what is around them: the arguments on the left, the result on the right. */
import { Arguments, Content, CopyPane, below, contentOf, textOf } from "./content.js";
import { LongText } from "./find.js";
import { duration, outcome, size } from "./format.js";
import { JsonTree, isBranch, parse, pasted } from "./json_tree.js";
import { Panes } from "./panes.js";
import { useWhole } from "./part_cards.js";
import { html, useMemo } from "./preact.js";

/** @typedef {import("./types.js").Part} Part */
/** @typedef {import("./types.js").Call} Call */

/** What may come in the place of an answer, by the roles of such records. @type {Record<string, string>} */
export const IN_ITS_PLACE = { body: "a body", "cut event": "an event without its end" };

/** @type {Part} */
const NO_PART = { role: "", seq: null, at_ms: 0, row: 0, sender: "", summary: "", lines: 0, preview: "", text: null, length: 0, fields: [] };

/**
 * Return the message of a call in a record, which may be a batch; undefined if it cannot be read.
 *
 * @param {string | null} text
 * @param {string} id the id of the call as JSON
 * @param {boolean} isRequest
 * @returns {Record<string, any> | undefined}
 */
export function messageIn(text, id, isRequest) {
  const value = text === null ? undefined : parse(text)?.value;
  /** @param {any} one */
  const fits = (one) => isBranch(one) && "method" in one === isRequest;
  if (!Array.isArray(value)) return fits(value) ? value : undefined;
  return value.find((one) => fits(one) && JSON.stringify(one.id) === id);
}

/** Return the result or the error of an answer. @param {Record<string, any> | undefined} message */
function resultIn(message) {
  return message && "error" in message ? message.error : message?.result;
}

/** What mcpproxy gave a peer: its value, or its text if that is not a message. @param {{part: Part, value: any}} props */
function Instead({ part, value }) {
  return value === undefined ? html`<${LongText} text=${part.text ?? ""} label="what was given" />` : html`<${Content} result=${value} name="given" marked=${[]} />`;
}

/** What came in the place of an answer. @param {{text: string}} props */
function Body({ text }) {
  const parsed = useMemo(() => parse(text), [text]);
  return parsed ? html`<${JsonTree} value=${parsed.value} label="the body" />` : html`<${LongText} text=${text} label="the body" />`;
}

/** @param {Call} call */
function isNamed(call) {
  return call.method === "tools/call" || call.method === "prompts/get";
}

/**
 * Whether the panes show what a pointer into the request or the answer leads to.
 *
 * @param {Call} call
 * @param {Part | undefined} answer
 * @param {string} pointer
 */
export function isInPanes(call, answer, pointer) {
  const message = messageIn(answer?.text ?? null, call.id, false);
  const isShownAsTree = !contentOf(message?.result).blocks.length || pointer.startsWith("/result/structuredContent");
  return pointer.startsWith(isNamed(call) ? "/params/arguments" : "/params") || pointer.startsWith("/error") || (pointer.startsWith("/result") && isShownAsTree);
}

/**
 * @param {object} props
 * @param {string} props.id of the recording
 * @param {Call} props.call
 * @param {Part} props.request
 * @param {Part | undefined} props.answer
 * @param {Part | undefined} props.body what came in the place of an answer: a body that is not a message, or an event without its end
 * @param {Part[]} props.given what mcpproxy gave a peer in the place of one of them
 * @param {{frame: number, pointer: string}[]} props.pointers what findings point to
 * @param {boolean} props.isRunning whether an answer may still come
 */
export function ResultPanes({ id, call, request, answer, body, given, pointers, isRunning }) {
  const asked = useWhole(id, request, true);
  const said = useWhole(id, answer ?? body ?? NO_PART, true);
  const question = useMemo(() => messageIn(asked.text, call.id, true), [asked.text]);
  const message = useMemo(() => messageIn(answer ? said.text : null, call.id, false), [answer, said.text]);
  /** @param {Part | undefined} part */
  const of = (part) => pointers.filter((one) => part && one.frame === part.seq).map((one) => one.pointer);
  /** Return what was given in the place of a message, if it is another one. @param {Part | undefined} part */
  const insteadOf = (part) => given.find((one) => one.sender === part?.sender && one.text !== part.text);
  const [asGiven, saidInstead] = [insteadOf(request), insteadOf(answer)];
  const words = isNamed(call) ? "arguments" : "params";
  /** @param {Record<string, any> | undefined} one */
  const argumentsIn = (one) => (isNamed(call) ? one?.params?.arguments : one?.params);
  const [symbol, , kind] = outcome(call, isRunning);
  const isError = message !== undefined && "error" in message;
  const result = resultIn(message);
  const left = html`<article class=${`part ${request.sender} given`} aria-label=${words}>
    <h3><span class="title">${words[0].toUpperCase()}${words.slice(1)}</span> <span class="count">${size(call.request_bytes)}</span>
      ${question ? html`<${CopyPane} label=${`Copy the ${words}`} text=${() => pasted(argumentsIn(question) ?? {})} />` : null}</h3>
    ${asked.note}
    ${question ? html`<${Arguments} value=${argumentsIn(question)} words=${words} marked=${below(of(request), isNamed(call) ? "/params/arguments" : "/params")} />` : html`<${LongText} text=${asked.text ?? ""} label=${`the ${words}`} />`}
    ${asGiven ? html`<div class="block"><h4 class="intervention">given instead by mcpproxy</h4><${Instead} part=${asGiven} value=${argumentsIn(messageIn(asGiven.text, call.id, true))} /></div>` : null}
  </article>`;
  const right = html`<article class=${`part ${answer?.sender ?? ""} result`} aria-label="result">
    <h3><span class=${`title ${kind}`}>${answer ? html`<span aria-hidden="true">${symbol}</span> ` : null}${isError ? "Error" : "Result"}</span>
      ${answer ? html`<span class="count">${size(call.answer_bytes)}, ${duration(call.latency_ms)}</span>` : null}
      ${message ? html`<${CopyPane} label="Copy the text of the result" text=${() => textOf(result)} />` : null}</h3>
    ${said.note}
    ${answer ? null : html`<p class="count">${body ? `no answer, but ${IN_ITS_PLACE[body.role]}:` : isRunning ? "no answer yet" : "no answer"}</p>`}
    ${!answer ? body && html`<${Body} text=${said.text ?? ""} />` : message ? html`<${Content} result=${result} name=${`call-${call.number}`} marked=${below(of(answer), isError ? "/error" : "/result")} />` : html`<${LongText} text=${said.text ?? ""} label="the answer" />`}
    ${saidInstead ? html`<div class="block"><h4 class="intervention">given instead by mcpproxy</h4><${Instead} part=${saidInstead} value=${resultIn(messageIn(saidInstead.text, call.id, false))} /></div>` : null}
  </article>`;
  return html`<${Panes} left=${left} right=${right} name="detail-left" label=${`Width of the ${words}`} initial=${40} />`;
}
