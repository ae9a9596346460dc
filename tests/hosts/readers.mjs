// Reads files with jsonc-parser, as VS Code does, and prints what it saw: one JSON object by path.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [modules, ...paths] = process.argv.slice(2);
const { parse, printParseErrorCode } = createRequire(`${modules}/`)("jsonc-parser");
const seen = {};
for (const path of paths) {
  const errors = [];
  const text = readFileSync(path, "utf8").replace(/^\uFEFF/, "");
  const value = parse(text, errors, { allowTrailingComma: true, allowEmptyContent: true });
  seen[path] = { value: value ?? null, errors: errors.map(({ error }) => printParseErrorCode(error)) };
}
process.stdout.write(JSON.stringify(seen));
