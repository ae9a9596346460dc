// @ts-check
/**
 * The key that each request for data needs.
 *
 * The printed address has a ticket, which works once. It is exchanged for a key, and leaves the address bar. The key
 * is in the storage of this origin, so the page can be reloaded, and its links work in other tabs. Unlike cookies,
 * which do not know ports, the storage of an origin is not seen by the servers of other ports.
 */

const NAME = "mcpproxy-key"; // another program may have this port later
const PATH = "/api/key";

/** @returns {string} the key that was stored; empty if there is none. A browser may forbid storage. */
function stored() {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} key */
function store(key) {
  try {
    localStorage.setItem(NAME, key);
  } catch {
    // Without storage, the key is used until the page is closed.
  }
}

/** @param {string} key */
function forget(key) {
  if (stored() === key) localStorage.removeItem(NAME);
}

/** Remove the ticket from the address. */
function dropTicket() {
  const query = new URLSearchParams(location.search);
  query.delete("token");
  const text = query.toString();
  history.replaceState(null, "", `${text ? `?${text}` : location.pathname}${location.hash}`);
}

/**
 * Return the key; if there is none, a text that the server refuses with a sentence about what it needs.
 * A key that still works is kept, and then the ticket is left unused. Without an answer the ticket stays in the
 * address, for the next attempt.
 */
export async function findKey() {
  const ticket = new URLSearchParams(location.search).get("token");
  const key = stored();
  if (!ticket) return key;
  const works = key && (await fetch(PATH, { method: "POST", headers: bearer(key) })).ok;
  const found = works ? key : await exchanged(ticket);
  dropTicket();
  return found;
}

/** @param {string} ticket @returns {Promise<string>} its key; empty if the server refuses it */
async function exchanged(ticket) {
  const made = newKey();
  store(made); // before the answer: the page may be left or reloaded until then
  const headers = { ...bearer(ticket), "Mcpproxy-Key": made };
  if ((await fetch(PATH, { method: "POST", headers, keepalive: true })).ok) return made;
  forget(made);
  return "";
}

/** @returns {string} 32 random bytes as base64url */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
}

/** @param {string} key */
export function bearer(key) {
  return { Authorization: `Bearer ${key}` };
}
