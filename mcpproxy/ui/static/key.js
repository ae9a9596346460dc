// @ts-check
/**
 * The key that each request for data needs.
 *
 * The printed address has a ticket, which works once. It is exchanged for a key, and leaves the address bar. The key
 * is in the storage of this origin, so the page can be reloaded, and its links work in other tabs. Unlike cookies,
 * which do not know ports, the storage of an origin is not seen by the servers of other ports.
 */

const NAME = "key";
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

/** Take the ticket out of the address. @returns {string} empty if the address has none */
function takeTicket() {
  const query = new URLSearchParams(location.search);
  const ticket = query.get("token");
  if (ticket === null) return "";
  query.delete("token");
  const text = query.toString();
  history.replaceState(null, "", `${text ? `?${text}` : location.pathname}${location.hash}`);
  return ticket;
}

/**
 * Return the key; if there is none, a text that the server does not take, so that it answers with what is needed.
 * A key that still works is kept, and then the ticket is left unused.
 */
export async function findKey() {
  const ticket = takeTicket();
  const key = stored();
  if (!ticket) return key;
  for (const secret of [key, ticket].filter(Boolean)) {
    const answer = await fetch(PATH, { method: "POST", headers: bearer(secret) });
    if (!answer.ok) continue;
    const found = await answer.text();
    store(found);
    return found;
  }
  return "";
}

/** @param {string} key */
export function bearer(key) {
  return { Authorization: `Bearer ${key}` };
}
