// Loaded before a server (node --import): prints the port of the server on stderr, as "port N".
// It also makes the server keep idle connections. By default the server closes them after five seconds, and on
// a busy machine a request may arrive at that moment.

import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  this.keepAliveTimeout = 600_000;
  this.once("listening", () => process.stderr.write(`port ${this.address().port}\n`));
  return listen.apply(this, args);
};
