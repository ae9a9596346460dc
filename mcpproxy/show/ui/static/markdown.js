// @ts-check
/**
 * Markdown as formatted text. It makes nodes of the page and nothing else: HTML stays text, no image is fetched, and a
 * link is its words with the address beside them. Of a long text, the beginning is formatted.
 */
import { visible } from "./format.js";
import { html } from "./preact.js";

const MOST = 50_000;
const DEEPEST = 8;
const LOOKED_AT = 20_000;

/** What is seldom in a text that is not Markdown. Two of them, or a block of code, are taken as a sign. */
const SIGNS = [
  /(?:^|\n\n)#{1,6} \S/,
  /^ {0,3}(?:[-*+]|\d{1,3}\.) \S.*\n(?:.*\n)?\s{0,6}(?:[-*+]|\d{1,3}\.) \S/m,
  /\*\*[^\s*][^*\n]{0,200}\*\*/,
  /^\|.*\|[ \t]*\n\|[ \t:|-]+\|/m,
  /\[[^\]\n]{1,200}\]\(https?:[^)\s]{1,500}\)/,
];

/** Whether a text is probably Markdown. @param {string} text @param {string} mimeType what is said about it */
export function isMarkdown(text, mimeType = "") {
  if (/^text\/(x-)?markdown\b/i.test(mimeType)) return true;
  const begin = text.slice(0, LOOKED_AT);
  if (/(?:^|\n)```[\w+-]*\n[^]*?\n```/.test(begin)) return true;
  return SIGNS.filter((sign) => sign.test(begin)).length > 1;
}

/** @param {{text: string}} props */
export function Markdown({ text }) {
  const rest = text.length - MOST;
  return html`<div class="markdown">${blocks(text.slice(0, MOST).split(/\r\n|\r|\n/), 0)}</div>${rest > 0 ? html`<p class="count">The first ${MOST.toLocaleString("en")} characters are formatted; the text has ${rest.toLocaleString("en")} more.</p>` : null}`;
}

const FENCE = /^( {0,3})(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+|$)(.*)$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$/;

/** Whether a line closes a block of code that a fence has opened. @param {string} fence @param {string} line */
function isEndOf(fence, line) {
  const text = line.trim();
  return text.startsWith(fence) && !text.replaceAll(fence[0], "");
}

/** Whether a line is the one below the head of a table. @param {string | undefined} line */
function isTableRule(line) {
  return line !== undefined && line.includes("|") && line.includes("-") && /^[\s:|-]+$/.test(line);
}

/**
 * @param {string[]} lines
 * @param {number} depth
 * @returns {any[]} nodes
 */
function blocks(lines, depth) {
  if (depth > DEEPEST) return [html`<p>${inline(lines.join("\n"), 0)}</p>`];
  const nodes = [];
  /** @type {string[]} */
  let paragraph = [];
  const end = () => {
    if (paragraph.length) nodes.push(html`<p>${inline(paragraph.join("\n"), 0)}</p>`);
    paragraph = [];
  };
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (fence) {
      end();
      let last = at + 1;
      while (last < lines.length && !isEndOf(fence[2], lines[last])) last += 1;
      nodes.push(html`<pre tabindex="0" aria-label="code">${visible(lines.slice(at + 1, last).join("\n"))}</pre>`);
      at = last + 1;
    } else if (heading) {
      end();
      const words = inline(heading[2].trimEnd().replace(/\s#+$/, ""), 0);
      const level = heading[1].length;
      nodes.push(level === 1 ? html`<h4>${words}</h4>` : level === 2 ? html`<h5>${words}</h5>` : html`<h6>${words}</h6>`);
      at += 1;
    } else if (RULE.test(line)) {
      end();
      nodes.push(html`<hr />`);
      at += 1;
    } else if (/^ {0,3}>/.test(line)) {
      end();
      const first = at;
      while (at < lines.length && /^ {0,3}>/.test(lines[at])) at += 1;
      nodes.push(html`<blockquote>${blocks(lines.slice(first, at).map((one) => one.replace(/^ {0,3}> ?/, "")), depth + 1)}</blockquote>`);
    } else if (ITEM.test(line)) {
      end();
      const [node, next] = list(lines, at, depth);
      nodes.push(node);
      at = next;
    } else if (line.includes("|") && isTableRule(lines[at + 1])) {
      end();
      const first = at;
      while (at < lines.length && lines[at].includes("|")) at += 1;
      nodes.push(table(lines.slice(first, at)));
    } else {
      if (line.trim()) paragraph.push(line);
      else end();
      at += 1;
    }
  }
  end();
  return nodes;
}

/** @param {string} line */
function indentOf(line) {
  return line.length - line.trimStart().length;
}

/**
 * Return the list that begins at a line, and the line after it. What is indented more than the mark of an item belongs
 * to the item.
 *
 * @param {string[]} lines
 * @param {number} start
 * @param {number} depth
 * @returns {[any, number]}
 */
function list(lines, start, depth) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[start]));
  const indent = first[1].length;
  const isNumbered = /\d/.test(first[2]);
  const items = [];
  let at = start;
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || match[1].length !== indent || /\d/.test(match[2]) !== isNumbered) break;
    const inner = [match[3] ?? ""];
    at += 1;
    while (at < lines.length && (indentOf(lines[at]) > indent || (!lines[at].trim() && indentOf(lines[at + 1] ?? "") > indent))) {
      inner.push(lines[at].slice(Math.min(indentOf(lines[at]), indent + match[2].length + 1)));
      at += 1;
    }
    const task = /^\[([ xX])\] /.exec(inner[0]);
    if (task) inner[0] = `${task[1] === " " ? "☐" : "☑"} ${inner[0].slice(4)}`;
    const nodes = inner.length === 1 ? inline(inner[0], 0) : blocks(inner, depth + 1);
    items.push(html`<li>${nodes}</li>`);
    while (at < lines.length - 1 && !lines[at].trim() && ITEM.test(lines[at + 1])) at += 1; // a list with space between its items
  }
  const number = Number.parseInt(first[2], 10);
  return [isNumbered ? html`<ol start=${number}>${items}</ol>` : html`<ul>${items}</ul>`, at];
}

/** @param {string[]} lines the head, the line below it, and the rows */
function table(lines) {
  /** @param {string} line */
  const cells = (line) => {
    const parts = line.trim().replace(/^\|/, "").split(/(?<!\\)\|/).slice(0, 50);
    if (parts.length > 1 && !parts[parts.length - 1].trim()) parts.pop();
    return parts.map((one) => inline(one.trim().replaceAll("\\|", "|"), 0));
  };
  const [head, , ...rows] = lines;
  return html`<div class="scrolled" tabindex="0" role="group" aria-label="table"><table>
    <thead><tr>${cells(head).map((one) => html`<th>${one}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${cells(row).map((one) => html`<td>${one}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

const MARK = /`+|\*\*|__|~~|\*|_|!?\[|<(?=https?:)|\\(?=[!-/:-@[-`{-~])/g;
const WORD = /[\p{L}\p{N}_]/u;

/**
 * Return the nodes of a text within a line. Each mark without an end is searched for once, so that a hostile text
 * takes no longer than another one.
 *
 * @param {string} text
 * @param {number} depth
 * @returns {any[]}
 */
function inline(text, depth) {
  if (depth > DEEPEST) return [visible(text)];
  /** @type {any[]} */
  const nodes = [];
  /** @type {Set<string>} */
  const unclosed = new Set();
  const marks = new RegExp(MARK);
  let from = 0;
  /** @param {string} mark @param {number} at */
  const next = (mark, at) => {
    const found = unclosed.has(mark) ? -1 : text.indexOf(mark, at);
    if (found < 0) unclosed.add(mark);
    return found;
  };
  /** @param {number} until @param {any} node @param {number} after */
  const put = (until, node, after) => {
    if (until > from) nodes.push(visible(text.slice(from, until)));
    nodes.push(node);
    from = after;
    marks.lastIndex = after;
  };
  for (let match = marks.exec(text); match; match = marks.exec(text)) {
    const [mark] = match;
    const at = match.index;
    const begin = at + mark.length;
    marks.lastIndex = begin;
    if (mark === "\\") {
      put(at, visible(text[begin]), begin + 1);
    } else if (mark[0] === "`") {
      const close = next(mark, begin);
      if (close >= 0) put(at, html`<code>${visible(text.slice(begin, close))}</code>`, close + mark.length);
    } else if (mark === "<") {
      const close = next(">", begin);
      if (close >= 0) put(at, html`<span class="address">${visible(text.slice(begin, close))}</span>`, close + 1);
    } else if (mark.endsWith("[")) {
      const middle = next("](", begin);
      const close = middle < 0 ? -1 : next(")", middle);
      if (close >= 0) put(at, link(text.slice(begin, middle), text.slice(middle + 2, close), mark[0] === "!", depth), close + 1);
    } else {
      const close = next(mark, begin + 1);
      const isInside = close >= 0 && /\S/.test(text[begin]) && /\S/.test(text[close - 1]);
      // snake_case_names are words
      const isWord = mark[0] === "_" && (WORD.test(text[at - 1] ?? " ") || WORD.test(text[close + mark.length] ?? " "));
      if (!isInside || isWord) continue;
      const inner = inline(text.slice(begin, close), depth + 1);
      put(at, mark === "~~" ? html`<s>${inner}</s>` : mark.length === 2 ? html`<strong>${inner}</strong>` : html`<em>${inner}</em>`, close + mark.length);
    }
  }
  if (from < text.length) nodes.push(visible(text.slice(from)));
  return nodes;
}

/** A link or an image as text: it leads nowhere, and loads nothing. @param {string} words @param {string} address @param {boolean} isImage @param {number} depth */
function link(words, address, isImage, depth) {
  const isSame = words === address;
  return html`<span class="linked">${isImage ? "image " : null}${inline(words, depth + 1)}</span>${isSame ? null : html` <span class="address">(${visible(address)})</span>`}`;
}
