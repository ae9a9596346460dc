// A client with the official TypeScript SDK of ACP. It prints the kinds of what it heard, as one JSON document.
//
//     node acp_client.mjs {1|2} NODE_MODULES -- COMMAND [ARG...]

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { sdk } from "./acp_sdk.mjs";

const [version, modules, separator, command, ...args] = process.argv.slice(2);
if (separator !== "--") throw new Error("usage: acp_client.mjs {1|2} NODE_MODULES -- COMMAND");

const acp = await sdk(version, modules);
const first = version === "1";
const INFO = { name: "acp-example-client", version: "1.0.0" };

const heard = [];
const wanted = [];
const note = (item) => {
  heard.push(item);
  for (const one of wanted) if (one.item === item) one.resolve();
};
// Resolves when the agent has sent ``item`` from now on.
const next = (item) => new Promise((resolve) => wanted.push({ item, resolve }));

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => agent.once("exit", resolve));

let cancelling = false;
let answerPermission = () => {};
const client = acp
  .client()
  .onNotification("session/update", ({ params }) => {
    const { sessionUpdate, state, status } = params.update;
    note([sessionUpdate, state ?? status].filter(Boolean).join(" "));
  })
  .onRequest("session/request_permission", async () => {
    if (cancelling) {
      const cancelled = new Promise((resolve) => (answerPermission = resolve));
      note("permission");
      await cancelled;
      return { outcome: { outcome: "cancelled" } };
    }
    note("permission");
    return { outcome: { outcome: "selected", optionId: "allow" } };
  })
  .onRequest("elicitation/create", () => ({ action: "accept" }))
  .onNotification("elicitation/complete", () => note("elicitation complete"));
if (first) {
  client
    .onRequest("fs/read_text_file", () => ({ content: "text" }))
    .onRequest("fs/write_text_file", () => ({}))
    .onRequest("terminal/create", () => ({ terminalId: "terminal-1" }))
    .onRequest("terminal/wait_for_exit", () => ({ exitCode: 0 }))
    .onRequest("terminal/output", () => ({ output: "built", truncated: false }))
    .onRequest("terminal/release", () => ({}));
}

const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await client.connectWith(stream, async (agent) => {
  const setup = { cwd: "/srv", mcpServers: [] };
  const clientCapabilities = {
    fs: { readTextFile: true, writeTextFile: true },
    terminal: true,
    elicitation: { url: {} },
  };
  const declared = first ? { clientCapabilities, clientInfo: INFO } : { capabilities: {}, info: INFO };
  await agent.request("initialize", { protocolVersion: Number(version), ...declared });
  await agent.request(first ? "authenticate" : "auth/login", { methodId: "key" });
  const { sessionId } = await agent.request("session/new", setup);
  if (first) await agent.request("session/set_mode", { sessionId, modeId: "code" });
  const value = first ? { value: "big" } : { type: "id", value: "big" };
  await agent.request("session/set_config_option", { sessionId, configId: "model", ...value });

  // In version 2 the answer comes at once, and the end of the work in an update.
  const prompt = async (words) => {
    const idle = first ? undefined : next("state_update idle");
    const params = { sessionId, prompt: [{ type: "text", text: words }] };
    const { stopReason } = await agent.request("session/prompt", params);
    await idle;
    note(`answered ${stopReason}`);
  };
  await prompt("build");
  cancelling = true;
  const asked = next("permission");
  const turn = prompt("wait");
  await asked;
  await agent.notify("session/cancel", { sessionId });
  answerPermission();
  await turn;

  await agent.request("session/list", {});
  if (first) await agent.request("session/load", { sessionId, ...setup });
  await agent.request("session/resume", { sessionId, ...setup });
  await agent.request("session/close", { sessionId });
});
agent.stdin.end();
await exited;
console.log(JSON.stringify(heard));
