// A client with @ai-sdk/mcp, which has a protocol stack of its own: node ai_sdk.mjs MODULES CALLS
//
// See python_sdk.py.

import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, calls] = process.argv.slice(2);
const words = process.env.MCPPROXY_SERVER;
const load = (file) => import(pathToFileURL(join(modules, "@ai-sdk", "mcp", "dist", file)).href);
const { createMCPClient, ElicitationRequestSchema } = await load("index.js");
const { StdioMCPTransport } = await load("mcp-stdio/index.js");
const options = () => ({ timeout: 6000, signal: AbortSignal.timeout(6000) });

const split = (text) =>
  [...text.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g)].map(([word]) => word.replace(/'([^']*)'|"([^"]*)"/g, "$1$2"));
const [command, ...args] = split(words);
const transport = words.startsWith("http:") ? { type: "http", url: words } : new StdioMCPTransport({ command, args });

const client = await createMCPClient({ transport, capabilities: { elicitation: {} } });
client.onElicitationRequest(ElicitationRequestSchema, () => ({ action: "decline" }));

async function every(method, member) {
  let page = await client[method]({ options: options() });
  const found = [...page[member]];
  while (page.nextCursor !== undefined) {
    page = await client[method]({ params: { cursor: page.nextCursor }, options: options() });
    found.push(...page[member]);
  }
  return found;
}

const offered = client.initializeResult?.capabilities ?? {};
if (offered.tools) {
  const tools = await every("listTools", "tools");
  const call = ({ name }) => client.callTool({ name, arguments: { text: "hello" }, options: options() });
  await Promise.all(tools.flatMap((tool) => Array.from({ length: Number(calls) }, () => call(tool))));
}
if (offered.resources) {
  for (const { uri } of (await every("listResources", "resources")).slice(0, 1)) await client.readResource({ uri });
}
if (offered.prompts) {
  for (const { name } of (await every("listPrompts", "prompts")).slice(0, 1)) await client.getPrompt({ name });
}
await client.close();
