// An agent with the official TypeScript SDK of ACP, which uses everything that its client declares.
//
//     node acp_agent.mjs {1|2} NODE_MODULES
//
// A prompt with the text "wait" ends when it is cancelled.

import { Readable, Writable } from "node:stream";
import { sdk } from "./acp_sdk.mjs";

const [version, modules] = process.argv.slice(2);
const acp = await sdk(version, modules);
const first = version === "1";
const INFO = { name: "acp-example-agent", version: "1.0.0" };
const text = (words) => ({ type: "text", text: words });

const OPTION = first ? "id" : "configId";
const options = (model) => [
  {
    [OPTION]: "model",
    name: "Model",
    type: "select",
    currentValue: model,
    options: [
      { value: "small", name: "Small" },
      { value: "big", name: "Big" },
    ],
  },
];
const MODES = { currentModeId: "ask", availableModes: ["ask", "code"].map((id) => ({ id, name: id })) };
const METHODS = [{ [first ? "id" : "methodId"]: "key", name: "API key", type: "agent" }];

const started = {
  initialize: () => ({
    protocolVersion: Number(version),
    authMethods: METHODS,
    ...(first
      ? {
          agentInfo: INFO,
          agentCapabilities: { loadSession: true, sessionCapabilities: { close: {}, list: {}, resume: {} } },
        }
      : { info: INFO, capabilities: { session: { mcp: { stdio: {} } } } }),
  }),
};

let sessions = 0;
let cancel = () => {};

async function work(client, sessionId, words) {
  const update = (update) => client.notify("session/update", { sessionId, update });
  const chunk = (kind, words) =>
    update({ sessionUpdate: `${kind}_chunk`, messageId: `${kind}-${sessions}`, content: text(words) });
  if (!first) {
    await chunk("user_message", words);
    await update({ sessionUpdate: "state_update", state: "running" });
  }
  const created = first ? { sessionUpdate: "tool_call" } : { sessionUpdate: "tool_call_update" };
  const finish = async (stopReason) => {
    if (first) return { stopReason };
    await update({ sessionUpdate: "state_update", state: "idle", stopReason });
  };

  await chunk("agent_thought", "How is it built?");
  await update({ ...created, toolCallId: `${words}-build`, title: "Build", kind: "execute", status: "pending" });
  if (words === "wait") {
    const cancelled = new Promise((resolve) => (cancel = resolve));
    const toolCall = { toolCallId: "wait-build", title: "Build", kind: "execute" };
    const asked = client.request("session/request_permission", {
      sessionId,
      options: [{ optionId: "allow", name: "Allow", kind: "allow_once" }],
      ...(first ? { toolCall } : { title: "Build?", subject: { type: "tool_call", toolCall } }),
    });
    await Promise.all([asked, cancelled]);
    await update({ sessionUpdate: "tool_call_update", toolCallId: "wait-build", status: "failed" });
    return await finish("cancelled");
  }
  const ask = client.request("session/request_permission", {
    sessionId,
    options: [
      { optionId: "allow", name: "Allow", kind: "allow_once" },
      { optionId: "reject", name: "Reject", kind: "reject_once" },
    ],
    ...(first
      ? { toolCall: { toolCallId: `${words}-build` } }
      : { title: "Build?", subject: { type: "command", command: "make", cwd: "/srv" } }),
  });
  if (!first) await update({ sessionUpdate: "state_update", state: "requires_action" });
  const { outcome } = await ask;
  if (!first) await update({ sessionUpdate: "state_update", state: "running" });
  await update({ sessionUpdate: "tool_call_update", toolCallId: `${words}-build`, status: "in_progress" });
  if (first) {
    const { content } = await client.request("fs/read_text_file", { sessionId, path: "/srv/a.txt", line: 1 });
    await client.request("fs/write_text_file", { sessionId, path: "/srv/b.txt", content });
    const terminal = await client.createTerminal({ sessionId, command: "make", cwd: "/srv" });
    await update({
      sessionUpdate: "tool_call_update",
      toolCallId: `${words}-build`,
      content: [{ type: "terminal", terminalId: terminal.id }],
      locations: [{ path: "/srv/a.txt", line: 1 }],
    });
    await terminal.waitForExit();
    await terminal.currentOutput();
    await terminal.release();
    const elicitationId = "login";
    const page = { mode: "url", url: "https://example.com/login", message: "Log in" };
    await client.request("elicitation/create", { sessionId, elicitationId, ...page });
    await client.notify("elicitation/complete", { elicitationId });
  } else {
    await update({ sessionUpdate: "terminal_update", terminalId: "t", command: "make", cwd: "/srv" });
    await update({ sessionUpdate: "terminal_output_chunk", terminalId: "t", data: btoa("built") });
  }
  await update({ sessionUpdate: "tool_call_update", toolCallId: `${words}-build`, status: "completed" });
  await chunk("agent_message", `Done: ${outcome.optionId}.`);
  await update({ sessionUpdate: "usage_update", used: 100, size: 200_000 });
  return await finish("end_turn");
}

const agent = acp
  .agent()
  .onRequest("initialize", started.initialize)
  .onRequest(first ? "authenticate" : "auth/login", () => ({}))
  .onRequest("session/new", () => {
    sessions += 1;
    return {
      sessionId: `session-${sessions}`,
      configOptions: options("small"),
      ...(first ? { modes: MODES } : {}),
    };
  })
  .onRequest("session/set_config_option", ({ params }) => ({ configOptions: options(params.value) }))
  .onRequest("session/list", () => ({ sessions: [{ sessionId: "session-1", cwd: "/srv" }] }))
  .onRequest("session/resume", () => ({}))
  .onRequest("session/close", () => ({}))
  .onRequest("session/prompt", async ({ params, client }) => {
    const done = work(client, params.sessionId, params.prompt[0].text);
    return first ? await done : { messageId: "user_message-1" };
  })
  .onNotification("session/cancel", () => cancel());
if (first) {
  agent.onRequest("session/set_mode", () => ({})).onRequest("session/load", async ({ params, client }) => {
    for (const kind of ["user_message_chunk", "agent_message_chunk"]) {
      const update = { sessionUpdate: kind, content: text("again") };
      await client.notify("session/update", { sessionId: params.sessionId, update });
    }
    return {};
  });
}
agent.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
