// Loaded before a server (node --import), tells on stderr which port the server got: "port N".
// It also has the server keep idle connections. Otherwise it closes them after five seconds, and on a busy
// machine a request may come in that very moment.

import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  this.keepAliveTimeout = 600_000;
  this.once("listening", () => process.stderr.write(`port ${this.address().port}\n`));
  return listen.apply(this, args);
};
