// Text as UTF-8, which the engine has no functions for. What it has (`encodeURIComponent` and its kin) goes by way of
// texts whose characters are bytes, and is much faster than a loop here.

const CHUNK = 0x2000;

export class TextEncoder {
  get encoding() {
    return "utf-8";
  }

  encode(text = "") {
    const bytes = unescape(encodeURIComponent(String(text).toWellFormed()));
    return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
  }
}

export class TextDecoder {
  #fatal;
  #keepsMark;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^utf-?8$/i.test(label)) throw new RangeError(`decoding \`${label}\`: only utf-8 is there`);
    this.#fatal = fatal;
    this.#keepsMark = ignoreBOM;
  }

  get encoding() {
    return "utf-8";
  }

  decode(content = new Uint8Array()) {
    const all = ArrayBuffer.isView(content)
      ? new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
      : new Uint8Array(content);
    const isMarked = all[0] === 0xef && all[1] === 0xbb && all[2] === 0xbf;
    const bytes = isMarked && !this.#keepsMark ? all.subarray(3) : all;
    let characters = "";
    for (let at = 0; at < bytes.length; at += CHUNK) {
      characters += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
    }
    try {
      return decodeURIComponent(escape(characters));
    } catch {
      if (this.#fatal) throw new TypeError("decoding bytes: they are no utf-8");
      return characters.replace(PART, (part) => decoded(part));
    }
  }
}

/** A run of ASCII, a sequence that may be a character, or a byte that is none. */
const PART = /[\x00-\x7f]+|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{1,2}|[\xf0-\xf4][\x80-\xbf]{1,3}|[\x80-\xff]/g;

function decoded(part) {
  try {
    return decodeURIComponent(escape(part));
  } catch {
    return "\ufffd";
  }
}
