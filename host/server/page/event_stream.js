// Server-sent events, read with `fetch`, because an `EventSource` cannot send a token.

import { headers, problemOf } from "./api.js";
import { refuseToken, token } from "./token.js";

/** The largest message that is read. The server sends none that is larger. */
const MAX_MESSAGE = 8 * 1024 * 1024;
/** A server that sends nothing for so long is gone: it sends a comment every 15 seconds. */
const SILENCE_MS = 40_000;

/** Returns what takes text as it arrives, and calls `onMessage` with each message `{event, data, id}` in it. */
function messageReader(onMessage) {
  let rest = "";
  let searched = 0;
  let id;
  return (text) => {
    rest += text.replaceAll("\r", "");
    for (let end = rest.indexOf("\n\n", searched); end >= 0; end = rest.indexOf("\n\n")) {
      let event = "message";
      const data = [];
      for (const line of rest.slice(0, end).split("\n")) {
        const colon = line.indexOf(":");
        const name = line.slice(0, Math.max(0, colon));
        const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
        if (name === "event") event = value;
        else if (name === "id") id = value;
        else if (name === "data") data.push(value);
      }
      rest = rest.slice(end + 2);
      if (data.length) onMessage({ event, data: data.join("\n"), id });
    }
    // The end of a message may be the beginning of the next text.
    searched = Math.max(0, rest.length - 1);
    if (rest.length > MAX_MESSAGE) throw new Error("a message of the stream is too large");
  };
}

/**
 * Reads a stream until it ends. Calls `onOpen` once it is connected and `onMessage` for each message. Returns `ended` if
 * the server has nothing more to say, `closed` otherwise. Throws a `Problem` for an error of the server.
 */
export async function readStream(path, { lastId, onOpen, onMessage, signal }) {
  const used = token.peek();
  const own = new AbortController();
  const stop = () => own.abort();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  let watchdog = setTimeout(stop, SILENCE_MS);
  try {
    const more = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    const response = await fetch(path, {
      headers: headers(more), signal: own.signal, cache: "no-store", credentials: "omit", redirect: "error",
    });
    if (response.status === 204) return "ended";
    if (!response.ok) {
      if (response.status === 401) refuseToken(used);
      throw await problemOf(path, response);
    }
    onOpen?.();
    const take = messageReader(onMessage);
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "closed";
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, SILENCE_MS);
      take(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    own.abort();
  }
}
