// A server with the tool "echo", built with the TypeScript SDK 1.x or 2.x.
//
//     node ts_server.mjs {1|2} NODE_MODULES [http]
//
// It speaks on stdio, or with "http" over Streamable HTTP on a port that it prints on stdout.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [line, modules, over] = process.argv.slice(2);
const require = createRequire(join(modules, "anywhere.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

const TOOLS = [
  {
    name: "echo",
    description: "Give the text back.",
    inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  },
];
const list = () => ({ tools: TOOLS });

function call(request) {
  const { name, arguments: given } = request.params;
  if (name !== "echo" || typeof given?.text !== "string") {
    return { content: [{ type: "text", text: "echo needs a text" }], isError: true };
  }
  return { content: [{ type: "text", text: given.text }] };
}

const about = [{ name: "example", version: "1.0" }, { capabilities: { tools: {} } }];

async function line1() {
  const { Server } = await load("@modelcontextprotocol/sdk/server/index.js");
  const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
  const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const types = await load("@modelcontextprotocol/sdk/types.js");
  const make = () => {
    const server = new Server(...about);
    server.setRequestHandler(types.ListToolsRequestSchema, list);
    server.setRequestHandler(types.CallToolRequestSchema, call);
    return server;
  };
  return [make, StdioServerTransport, StreamableHTTPServerTransport];
}

async function line2() {
  const { Server } = await load("@modelcontextprotocol/server");
  const { StdioServerTransport } = await load("@modelcontextprotocol/server/stdio");
  const { NodeStreamableHTTPServerTransport } = await load("@modelcontextprotocol/node");
  const make = () => {
    const server = new Server(...about);
    server.setRequestHandler("tools/list", list);
    server.setRequestHandler("tools/call", call);
    return server;
  };
  return [make, StdioServerTransport, NodeStreamableHTTPServerTransport];
}

const [make, Stdio, Streamable] = await (line === "1" ? line1() : line2());

// Each session has a server and a transport of its own.
const sessions = new Map();

async function answer(request, response) {
  const id = request.headers["mcp-session-id"];
  if (id !== undefined && !sessions.has(id)) {
    response.writeHead(404).end();
    return;
  }
  let transport = sessions.get(id);
  if (transport === undefined) {
    transport = new Streamable({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (given) => sessions.set(given, transport),
    });
    await make().connect(transport);
  }
  await transport.handleRequest(request, response);
}

if (over === "http") {
  const listener = createServer((request, response) => void answer(request, response));
  listener.listen(0, "127.0.0.1", () => process.stdout.write(`port ${listener.address().port}\n`));
} else {
  await make().connect(new Stdio());
}
