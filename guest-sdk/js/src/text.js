// TextEncoder and TextDecoder for UTF-8, which the engine lacks. They use `encodeURIComponent` and similar functions of
// the engine with strings whose characters are bytes, which is much faster than a loop in JavaScript.

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
  #ignoreBOM;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^utf-?8$/i.test(label)) throw new RangeError(`decoding \`${label}\`: only utf-8 is supported`);
    this.#fatal = fatal;
    this.#ignoreBOM = ignoreBOM;
  }

  get encoding() {
    return "utf-8";
  }

  decode(content = new Uint8Array()) {
    const all = ArrayBuffer.isView(content)
      ? new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
      : new Uint8Array(content);
    const isMarked = all[0] === 0xef && all[1] === 0xbb && all[2] === 0xbf;
    const bytes = isMarked && !this.#ignoreBOM ? all.subarray(3) : all;
    let characters = "";
    for (let at = 0; at < bytes.length; at += CHUNK) {
      characters += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
    }
    try {
      return decodeURIComponent(escape(characters));
    } catch {
      if (this.#fatal) throw new TypeError("decoding bytes: they are not utf-8");
      return characters.replace(PART, (part) => decodePart(part));
    }
  }
}

/** A run of ASCII, a sequence that may be a character, or an invalid byte. */
const PART = /[\x00-\x7f]+|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{1,2}|[\xf0-\xf4][\x80-\xbf]{1,3}|[\x80-\xff]/g;

function decodePart(part) {
  try {
    return decodeURIComponent(escape(part));
  } catch {
    return "\ufffd";
  }
}
