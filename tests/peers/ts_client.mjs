// Runs a plan against a server with the TypeScript SDK, and prints the results as a line with a JSON document.
//
//     node ts_client.mjs {1|2|2-auto} NODE_MODULES PLAN -- {COMMAND [ARG...] | URL} [++ {COMMAND [ARG...] | URL}]...
//
// 1 is @modelcontextprotocol/sdk 1.x, 2 @modelcontextprotocol/client 2.x, which with "-auto" asks the
// server for its era first (on stdio by starting the command twice). PLAN is the JSON text of a list
// of steps (see plans.py). A URL is a server over Streamable HTTP or, if its path is /sse, over HTTP+SSE.
// If the environment sets PEER_REVISION, the handshake requests that revision instead of the latest one of
// the SDK. As in sdk_client.py, the document has no times, process ids, paths or session ids, and with several
// servers there is a line for each.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [line, modules, planText, separator, ...words] = process.argv.slice(2);
if (separator !== "--") throw new Error("usage: ts_client.mjs {1|2|2-auto} NODE_MODULES PLAN -- COMMAND");

const require = createRequire(join(modules, "anywhere.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

// Values that differ in every run: times and session ids.
const PASSING =
  /\d{1,2}:\d{2}:\d{2}(\s?[AP]M)?|\d{4}-\d\d-\d\dT[\d:.]+Z?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const plain = (value) => JSON.parse((JSON.stringify(value) ?? "null").replace(PASSING, "<...>"));

const servers = [[]];
for (const word of words) word === "++" ? servers.push([]) : servers.at(-1).push(word);

// The callbacks of a host application answer requests of the server and log its notifications.
const heard = [];
const asked = [];
let news = () => {};
const note = (list, item) => {
  list.push(item);
  news();
};
const ANSWERS = {
  "sampling/createMessage": () => ({
    role: "assistant",
    content: { type: "text", text: "four" },
    model: "none",
  }),
  "elicitation/create": (params) => {
    const known = { name: "Ada", check: true, integer: 7, colour: "green" };
    const wanted = params.requestedSchema?.properties ?? {};
    const content = Object.fromEntries(Object.entries(known).filter(([name]) => name in wanted));
    return { action: "accept", content };
  },
  "roots/list": () => ({ roots: [{ uri: "file:///srv/example", name: "example" }] }),
};
const answer = (method) => (request) => {
  note(asked, method);
  return ANSWERS[method](request.params ?? {});
};
const waitFor = async (method) => {
  while (!asked.includes(method) && !heard.some((message) => message.method === method)) {
    await new Promise((resolve) => (news = resolve));
  }
};

const info = { name: "ts-client", version: "1.0.0" };
const capabilities = { sampling: {}, elicitation: {}, roots: {} };
const hear = async (message) => note(heard, plain(message));

// The SDK forgets the callback for progress as soon as it has read the answer, so whether it tells of all
// progress depends on what came in one chunk. What arrived is told here instead.
const seen = [];
function watch(transport) {
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.method === "notifications/progress") seen.push(message);
    deliver(message, extra);
  };
}

// Neither line takes the revision as an argument, so it is put into the request on its way.
const REVISION = process.env.PEER_REVISION;
function asking(transport) {
  if (!REVISION) return transport;
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === "initialize") message.params.protocolVersion = REVISION;
    return send(message, options);
  };
  return transport;
}

// What reaches the server, made from the classes of this line of the SDK.
function reach([command, ...args], stdio, streamable, sse) {
  if (!command.startsWith("http:")) return asking(new stdio({ command, args }));
  const url = new URL(command);
  return asking(url.pathname === "/sse" ? new sse(url) : new streamable(url));
}

async function connect(server) {
  if (line === "1") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { SSEClientTransport } = await load("@modelcontextprotocol/sdk/client/sse.js");
    const types = await load("@modelcontextprotocol/sdk/types.js");
    const client = new Client(info, { capabilities });
    client.setRequestHandler(types.CreateMessageRequestSchema, answer("sampling/createMessage"));
    client.setRequestHandler(types.ElicitRequestSchema, answer("elicitation/create"));
    client.setRequestHandler(types.ListRootsRequestSchema, answer("roots/list"));
    client.fallbackNotificationHandler = hear;
    const transport = reach(server, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport);
    await client.connect(transport);
    watch(transport);
    return client;
  }
  const { Client, StreamableHTTPClientTransport, SSEClientTransport } = await load(
    "@modelcontextprotocol/client",
  );
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  const mode = line === "2-auto" ? "auto" : "legacy";
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  for (const method of Object.keys(ANSWERS)) client.setRequestHandler(method, answer(method));
  client.fallbackNotificationHandler = hear;
  const transport = reach(server, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport);
  await client.connect(transport);
  watch(transport);
  return client;
}

async function call(client, name, args, onprogress) {
  const params = { name, arguments: args };
  const options = onprogress ? { onprogress } : {};
  return line === "1" ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

async function perform(step, client) {
  switch (step.do) {
    case "list tools":
      return client.listTools();
    case "call": {
      seen.length = 0;
      const result = await call(client, step.tool, step.arguments, step.progress && (() => {}));
      return { result, progress: seen.map((message) => plain(message.params)) };
    }
    case "call together":
      return Promise.all(step.arguments.map((args) => call(client, step.tool, args)));
    case "echo often": {
      let right = 0;
      for (let start = 0; start < step.count; start += 50) {
        const texts = Array.from({ length: Math.min(50, step.count - start) }, (_, n) => String(start + n));
        const answers = await Promise.all(texts.map((text) => call(client, "echo", { text })));
        right += answers.filter((answer, n) => answer.content[0].text === texts[n]).length;
      }
      return { right };
    }
    case "list resources":
      return client.listResources();
    case "list templates":
      return client.listResourceTemplates();
    case "read":
      return client.readResource({ uri: step.uri });
    case "subscribe":
      return client.subscribeResource({ uri: step.uri });
    case "unsubscribe":
      return client.unsubscribeResource({ uri: step.uri });
    case "list prompts":
      return client.listPrompts();
    case "get prompt":
      return client.getPrompt({ name: step.name, arguments: step.arguments });
    case "complete":
      return client.complete({
        ref: { type: "ref/prompt", name: step.prompt },
        argument: { name: step.argument[0], value: step.argument[1] },
      });
    case "ping":
      return client.ping();
    case "log level":
      return client.setLoggingLevel(step.level);
    case "wait for":
      return waitFor(step.method);
    default:
      throw new Error(`ts_client.mjs: no such step: ${JSON.stringify(step)}`);
  }
}

async function session(server) {
  for (const list of [heard, asked, seen]) list.length = 0;
  const client = await connect(server);
  const steps = [];
  for (const step of JSON.parse(planText)) {
    try {
      steps.push({ step, gave: plain(await perform(step, client)) });
    } catch (error) {
      // Whatever the SDK makes of it is the result to compare.
      steps.push({ step, raised: plain(`${error.constructor.name}: ${error.message}`) });
    }
  }
  const opening = {
    server: client.getServerVersion() ?? null,
    capabilities: client.getServerCapabilities() ?? null,
    protocolVersion: client.getNegotiatedProtocolVersion?.() ?? null,
  };
  await client.transport.terminateSession?.();
  await client.close();
  // Notifications have no fixed place between answers: they are compared as a set with counts.
  heard.sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
  return { opening, steps, heard, asked: asked.sort() };
}

let code = 0;
for (const server of servers) {
  let document;
  try {
    document = await session(server);
  } catch (error) {
    document = { failed: String(error.stack) };
    code = 1;
  }
  process.stdout.write(JSON.stringify(document) + "\n");
}
// A session that failed may have left a server, which would keep this process.
if (code) process.exit(code);
