// The entry of the TypeScript SDK of ACP for a version of the protocol.

import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const sdk = (version, modules) => {
  const dist = join(modules, "@agentclientprotocol", "sdk", "dist");
  return import(pathToFileURL(join(dist, `v${version}`, "stable", "acp.js")).href);
};
