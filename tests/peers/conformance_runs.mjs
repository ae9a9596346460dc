// Runs the official conformance suite several times in one process, one run after the other:
//
//     node conformance_runs.mjs INDEX RUNS
//
// INDEX is the suite's index.js, RUNS the JSON text of a list of lists of its arguments. To load the suite is
// most of what a run costs, and a module that was compiled before is not compiled again. Each run has a
// module of its own; it ends where the suite ends the process.

import { pathToFileURL } from "node:url";

const [index, runs] = process.argv.slice(2);
const ended = new Error("the suite ends the process");
const exit = process.exit;
// What the suite does after the end of a run is its handling of this error, and no fault.
process.on("unhandledRejection", (reason) => {
  if (reason !== ended) throw reason;
});

let worst = 0;
for (const [number, args] of JSON.parse(runs).entries()) {
  process.argv = [process.argv[0], index, ...args];
  const code = await new Promise((end) => {
    process.exit = (code) => {
      end(code ?? 0);
      throw ended;
    };
    import(`${pathToFileURL(index).href}?run=${number}`).catch((error) => error === ended || end(2));
  });
  worst = Math.max(worst, code);
}
exit(worst);
