// What models write as it arrives. It is not durable: the text of a finished call is what the record says.

import { signal } from "./dom.js";
import { runPath } from "./api.js";
import { readStream } from "./event_stream.js";

const AGAIN_MS = 2000;
/** More is cut, because it is shown only until the reply is complete. */
const MAX_TEXT = 64 * 1024;
const SHOW_MS = 100;

const encoder = new TextEncoder();

export class LiveText {
  /** `callsOf(role)` is how many calls of the role are recorded. */
  constructor(name, callsOf) {
    this.callsOf = callsOf;
    this.path = runPath(name, "stream");
    /** The texts of open calls: `{role, turn, attempt, text}`. */
    this.texts = signal([]);
    this.calls = new Map();
    this.timer = 0;
    this.stopped = new AbortController();
  }

  async start() {
    while (!this.stopped.signal.aborted) {
      try {
        const ended = await readStream(this.path, { signal: this.stopped.signal, onMessage: (message) => this.take(message) });
        if (ended === "ended") return;
      } catch (problem) {
        if (problem.status >= 400 && problem.status < 500) return;
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  stop() {
    this.stopped.abort();
    clearTimeout(this.timer);
  }

  take({ event, data }) {
    if (event !== "text") return;
    let piece;
    try {
      piece = JSON.parse(data);
    } catch {
      return;
    }
    const key = `${piece.role}/${piece.turn}/${piece.attempt}`;
    const open = this.calls.get(key) ?? { role: piece.role, turn: piece.turn, attempt: piece.attempt, text: "", bytes: 0, callsBefore: this.callsOf(piece.role) };
    const size = encoder.encode(piece.text ?? "").length;
    // The first message of an open call has everything so far; a repeated one has nothing new.
    if (piece.offset === 0) {
      open.text = piece.text ?? "";
      open.bytes = size;
    } else if (piece.offset === open.bytes) {
      open.text += piece.text;
      open.bytes += size;
    }
    if (open.text.length > MAX_TEXT) open.text = open.text.slice(-MAX_TEXT);
    this.calls.set(key, open);
    this.show();
  }

  /** Forgets the texts of calls that are complete: the record has them. */
  forgetRecorded() {
    for (const [key, open] of this.calls) if (this.callsOf(open.role) > open.callsBefore) this.calls.delete(key);
    this.show();
  }

  show() {
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.texts.value = [...this.calls.values()].map((open) => ({ ...open }));
    }, SHOW_MS);
  }
}
