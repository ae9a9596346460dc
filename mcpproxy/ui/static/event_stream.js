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
    try {
      const answer = await connect(last ? { "Last-Event-ID": last } : {});
      if (signal.aborted) return;
      if (!answer.ok || !answer.body) {
        handlers.failed?.(null);
        return;
      }
      handlers.opened?.(null);
      for await (const event of events(answer.body)) {
        if (signal.aborted) return;
        if (event.id) last = event.id;
        handlers[event.name]?.(event.data ? JSON.parse(event.data) : null);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error; // not the network
    }
    handlers.lost?.(null);
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{name: string, id: string, data: string}>}
 */
async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let event = { name: "message", id: "", data: "" };
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + decoder.decode(part.value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines.map((one) => one.replace(/\r$/, ""))) {
      const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? ["", "", ""];
      if (field === "event") event.name = value;
      else if (field === "id") event.id = value;
      else if (field === "data") event.data += value;
      else if (!line) {
        yield event;
        event = { name: "message", id: "", data: "" };
      }
    }
  }
}
