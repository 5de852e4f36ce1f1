// Server-sent events, read with `fetch`, because an `EventSource` cannot send a token.

import { headers, Problem } from "./api.js";
import { refuseToken, token } from "./token.js";

/** The largest message that is read. The server sends none that is larger. */
const MAX_MESSAGE = 8 * 1024 * 1024;
/** A server that sends nothing for so long is gone: it sends a comment every 15 seconds. */
const SILENCE_MS = 40_000;

/** Splits text that arrives in pieces into messages `{event, data, id}`. */
export class MessageParser {
  constructor(onMessage) {
    this.onMessage = onMessage;
    this.rest = "";
    this.clear();
  }

  clear() {
    this.event = "";
    this.data = [];
    this.size = 0;
  }

  push(text) {
    this.rest += text;
    let from = 0;
    for (;;) {
      const end = this.rest.indexOf("\n", from);
      if (end < 0) break;
      this.line(this.rest.slice(from, this.rest[end - 1] === "\r" ? end - 1 : end));
      from = end + 1;
    }
    this.rest = this.rest.slice(from);
    if (this.rest.length > MAX_MESSAGE) throw new Error("a message of the stream is too large");
  }

  line(line) {
    if (line === "") {
      if (this.data.length) this.onMessage({ event: this.event || "message", data: this.data.join("\n"), id: this.id });
      this.clear();
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (name === "event") this.event = value;
    else if (name === "id" && !value.includes("\0")) this.id = value;
    else if (name === "data") {
      this.size += value.length;
      if (this.size > MAX_MESSAGE) throw new Error("a message of the stream is too large");
      this.data.push(value);
    }
  }
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
      throw new Problem(path, response.status, await response.json().catch(() => ({})));
    }
    onOpen?.();
    const parser = new MessageParser(onMessage);
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "closed";
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, SILENCE_MS);
      parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    own.abort();
  }
}
