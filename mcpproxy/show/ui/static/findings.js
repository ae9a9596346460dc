// @ts-check
/** One finding with the sentence of the specification, and all findings of a recording, grouped by rule. */
import { useAnswer } from "./answer.js";
import { SEVERITY_MARKS, plural, visible } from "./format.js";
import { html } from "./preact.js";

/** @type {Record<string, string>} */
const SEVERITY_WORDS = { error: "breaks a requirement", warning: "against a recommendation", info: "legal, but notable" };

/**
 * @param {{finding: import("./types.js").Finding, go: (change: Partial<import("./address.js").Place>) => void}} props
 */
export function FindingCard({ finding, go }) {
  return html`<article class=${`finding ${finding.severity}`}>
    <h4><span class=${`mark ${finding.severity}`}><span aria-hidden="true">${SEVERITY_MARKS[finding.severity]}</span> ${finding.severity}</span> ${finding.rule} <span class="count">${finding.name}</span></h4>
    <p>${visible(finding.message)} <${More} finding=${finding} /></p>
    <${RuleText} rule=${finding} />
    <p class="facts">
      <span>${SEVERITY_WORDS[finding.severity]}</span>
      ${finding.broken_by ? html`<span>${finding.severity === "info" ? "" : "broken "}by the ${finding.broken_by}</span>` : null}
      ${finding.frame ? html`<span>frame ${finding.frame}</span>` : null}
      ${finding.pointer ? html`<span>at <code>${visible(finding.pointer)}</code></span>` : null}
      <button type="button" class="link" onClick=${() => go({ filter: `rule:${finding.rule}`, view: "calls", call: 0 })}>all of ${finding.rule}</button>
    </p>
  </article>`;
}

/** @param {{finding: import("./types.js").Finding}} props */
function More({ finding }) {
  return finding.more ? html`<span class="count">${visible(finding.more)}</span>` : null;
}

/** @param {{rule: {sentence: string, instead: string, link: string, source: string}}} props */
function RuleText({ rule }) {
  return html`
    ${rule.sentence ? html`<p class="sentence"><strong>The specification:</strong> ${rule.sentence} ${rule.link ? html`<a href=${rule.link} target="_blank" rel="noreferrer noopener">read it there</a>` : html`<code>${visible(rule.source)}</code>`}</p>` : null}
    ${rule.instead ? html`<p><strong>Instead:</strong> ${rule.instead}</p>` : null}`;
}

/**
 * @param {object} props
 * @param {import("./types.js").Summary} props.summary
 * @param {import("./types.js").Recording} props.recording the recording as it is now
 * @param {import("./live.js").Live} props.live
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Findings({ summary, recording, live, go }) {
  const [rules, instead] = useAnswer(`/api/recordings/${summary.recording.id}/findings`, {}, live.version);
  if (!rules) return instead;
  if (!rules.length && recording.has_not_begun) {
    return html`<p class="empty">There is nothing to judge: no message was sent before <span class="bad">${visible(recording.ended)}</span>.
      ${summary.target ? html`<br />Its command was <code>${visible(summary.target)}</code>` : null}</p>`;
  }
  if (!rules.length && recording.model) {
    return html`<p class="empty">This is a recording of a model's interface, which is not judged. <em>Prompt</em> says what the model saw.</p>`;
  }
  if (!rules.length) {
    return html`<p class="empty">No finding was recorded. If this recording was made without judging, <code>mcpproxy check</code> judges it now.</p>`;
  }
  return html`<div class="page">${rules.map(
    (/** @type {any} */ rule) => html`<section class=${`finding ${rule.severity}`}>
      <h3><span class=${`mark ${rule.severity}`}><span aria-hidden="true">${SEVERITY_MARKS[rule.severity]}</span> ${rule.severity}</span> ${rule.rule} <span class="count">${rule.name}, ${plural(rule.count, "time")}</span></h3>
      <p>${rule.summary}</p>
      <${RuleText} rule=${rule} />
      <ul class="plain">${rule.findings.slice(0, 20).map(
        (/** @type {import("./types.js").Finding} */ finding) => html`<li>
          ${finding.row
            ? html`<button type="button" class="link" onClick=${() => go({ view: "calls", filter: "", call: finding.row })}>call ${finding.row}</button>`
            : html`<span class="count">the whole session</span>`} ${visible(finding.message)} <${More} finding=${finding} />
        </li>`,
      )}</ul>
      ${rule.count > 20 ? html`<button type="button" class="link" onClick=${() => go({ view: "calls", filter: `rule:${rule.rule}`, call: 0 })}>show all ${rule.count.toLocaleString("en")} in the list</button>` : null}
    </section>`,
  )}</div>`;
}
