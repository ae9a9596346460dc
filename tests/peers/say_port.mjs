// Loaded before a server (node --import), tells on stderr which port the server got: "port N".

import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  this.once("listening", () => process.stderr.write(`port ${this.address().port}\n`));
  return listen.apply(this, args);
};
