// A client with the TypeScript SDK, as users write one: node typescript_sdk.mjs {1|2|2-auto} MODULES CALLS
//
// See python_sdk.py. 1 is @modelcontextprotocol/sdk 1.x, 2 is @modelcontextprotocol/client 2.x, which with
// "-auto" asks the server for its era first.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [line, modules, calls] = process.argv.slice(2);
const words = process.env.MCPPROXY_SERVER;
const require = createRequire(join(modules, "anywhere.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const options = { timeout: 6000 };
const info = { name: `typescript-sdk-${line}`, version: "1.0.0" };
const capabilities = { sampling: {}, elicitation: {}, roots: {} };
const answers = {
  "sampling/createMessage": () => ({ role: "assistant", content: { type: "text", text: "yes" }, model: "none" }),
  "elicitation/create": () => ({ action: "decline" }),
  "roots/list": () => ({ roots: [{ uri: "file:///srv/example" }] }),
};

// The words of a command as Python's shlex.join quotes them.
const split = (text) =>
  [...text.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g)].map(([word]) => word.replace(/'([^']*)'|"([^"]*)"/g, "$1$2"));

function reach(stdio, streamable) {
  if (words.startsWith("http:")) return new streamable(new URL(words));
  const [command, ...args] = split(words);
  return new stdio({ command, args });
}

async function connected() {
  if (line === "1") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const types = await load("@modelcontextprotocol/sdk/types.js");
    const client = new Client(info, { capabilities });
    client.setRequestHandler(types.CreateMessageRequestSchema, answers["sampling/createMessage"]);
    client.setRequestHandler(types.ElicitRequestSchema, answers["elicitation/create"]);
    client.setRequestHandler(types.ListRootsRequestSchema, answers["roots/list"]);
    await client.connect(reach(StdioClientTransport, StreamableHTTPClientTransport), options);
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  const versionNegotiation = { mode: line === "2-auto" ? "auto" : "legacy" };
  const client = new Client(info, { capabilities, versionNegotiation });
  for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
  await client.connect(reach(StdioClientTransport, StreamableHTTPClientTransport), options);
  return client;
}

const client = await connected();

async function every(method, member) {
  let page = await client[method]({}, options);
  const found = [...page[member]];
  while (page.nextCursor !== undefined) {
    page = await client[method]({ cursor: page.nextCursor }, options);
    found.push(...page[member]);
  }
  return found;
}

const call = (name) => {
  const params = { name, arguments: { text: "hello" } };
  return line === "1" ? client.callTool(params, undefined, options) : client.callTool(params, options);
};

const offered = client.getServerCapabilities() ?? {};
if (offered.tools) {
  const tools = await every("listTools", "tools");
  await Promise.all(tools.flatMap((tool) => Array.from({ length: Number(calls) }, () => call(tool.name))));
}
if (offered.resources) {
  for (const { uri } of (await every("listResources", "resources")).slice(0, 1)) {
    await client.readResource({ uri }, options);
  }
}
if (offered.prompts) {
  for (const prompt of (await every("listPrompts", "prompts")).slice(0, 1)) {
    const given = Object.fromEntries((prompt.arguments ?? []).map(({ name }) => [name, "x"]));
    await client.getPrompt({ name: prompt.name, arguments: given }, options);
  }
}
await client.transport?.terminateSession?.();
await client.close();
