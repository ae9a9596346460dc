// @ts-check
/** Server-sent events by `fetch`: the browser's own `EventSource` can send no fields of HTTP. */

const RETRY_MS = 2000;

/**
 * Receive events until `signal` is aborted or the request is refused. If the connection is lost, connect again, with
 * the id of the last event.
 *
 * @param {(headers: Record<string, string>) => Promise<Response>} connect
 * @param {Record<string, (data: any) => void>} handlers by the name of the event; also `failed`, `lost` and `opened`
 * @param {AbortSignal} signal
 */
export async function receive(connect, handlers, signal) {
  let last = "";
  while (!signal.aborted) {
    const answer = await unlessLost(connect(last ? { "Last-Event-ID": last } : {}));
    if (signal.aborted) return;
    if (answer) {
      if (!answer.ok || !answer.body) {
        handlers.failed?.(null);
        return;
      }
      handlers.opened?.(null);
      const received = events(answer.body);
      for (let step = await unlessLost(received.next()); step && !step.done; step = await unlessLost(received.next())) {
        if (signal.aborted) return;
        const { id, name, data } = step.value;
        if (id) last = id;
        handlers[name]?.(data.length ? JSON.parse(data.join("\n")) : null);
      }
      if (signal.aborted) return;
    }
    handlers.lost?.(null);
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

/**
 * @template T
 * @param {Promise<T>} promise
 * @returns {Promise<T | null>} null if the network has failed
 */
async function unlessLost(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof TypeError || error instanceof DOMException) return null;
    throw error;
  }
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{name: string, id: string, data: string[]}>}
 */
async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  /** @type {string[]} */
  let rest = []; // of the line that has not ended
  const none = () => ({ name: "message", id: "", data: /** @type {string[]} */ ([]) });
  let event = none();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = decoder.decode(part.value, { stream: true }).split("\n");
    rest.push(lines[0]);
    if (lines.length === 1) continue;
    lines[0] = rest.join("");
    rest = lines.splice(-1);
    for (const line of lines.map((one) => one.replace(/\r$/, ""))) {
      const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? ["", "", ""];
      if (field === "event") event.name = value;
      else if (field === "id") event.id = value;
      else if (field === "data") event.data.push(value);
      else if (!line) {
        yield event;
        event = none();
      }
    }
  }
}
