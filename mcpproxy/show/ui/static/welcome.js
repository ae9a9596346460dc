// @ts-check
/** What the page shows in place of calls while there is no recording: how to make one. */
import { CopyButton } from "./copy.js";
import { plural, visible } from "./format.js";
import { html } from "./preact.js";

/** @param {string} folder where recordings have to be made to appear here; empty if it is the folder of all */
function commands(folder) {
  const own = folder ? `mcpproxy --trace-dir '${folder.replace(/'/g, "'\\''")}' -- python server.py` : "mcpproxy -- python server.py";
  const anywhere = [
    ["mcpproxy demo", "plays a short session with three faults, and explains them"],
    ["mcpproxy wrap --all", "records what your editor or desktop client does: it finds their servers, and asks before it changes a file"],
  ];
  return [...(folder ? [] : anywhere), [own, "records a server of your own: write it before the command that starts the server"]];
}

/** @param {string[][]} listed commands, each with what it does */
const Commands = (listed) => html`<dl>${listed.map(([command, words]) => html`<dt><code>${command}</code> <${CopyButton} words="Copy" text=${() => command} /></dt><dd>${words}</dd>`)}</dl>`;

/** @param {{folder: string, below: import("./types.js").Below}} props */
export function Welcome({ folder, below }) {
  const pages = below.folders.map(({ path, recordings, command }) => [command, `shows ${plural(recordings, "recording")} in ${path}`]);
  const here = folder ? html`This page shows <code>${visible(folder)}</code>. ` : null;
  return html`<section class="page welcome" aria-label="How to record">
    ${pages.length
      ? html`<h2>The recordings are in folders below</h2>
          <p>${here}It holds no recording itself. Each of the folders below has a page of its own:</p>
          ${Commands(pages)}
          ${below.more ? html`<p>${plural(below.more, "more folder")} with recordings</p>` : null}`
      : html`<h2>Nothing is recorded yet</h2>`}
    <p>${pages.length ? null : here}What ${folder ? "this command" : "one of these commands"} records appears here by itself.</p>
    ${Commands(commands(folder))}
  </section>`;
}
