// Texts, images and files as parts of messages: as authors write them, and as the host takes them.
//
// An author's part is a text, or an object with `type`, `mediaType`, and one of `data`, `url` and `digest`. What is
// none of these is passed on as it is: `border.js` refuses it, and says where it is.

import { bytes } from "./environment.js";
import { HostError } from "./errors.js";
import { call } from "./host.js";

export const media = {
  /** The bytes of an image or a file. */
  load: ({ data, digest, url }) => {
    if (data !== undefined) return bytes(data);
    if (digest !== undefined) return Uint8Array.from(call("media", "load", digest));
    throw new HostError("invalid", `loading \`${url}\`: the host does not read addresses`);
  },
};

/** An image: its media type, and its bytes. */
export const image = (mediaType, data) => ({ type: "image", mediaType, data });

/** A file of any other type. */
export const file = (mediaType, data) => ({ type: "file", mediaType, data });

/** Whether it is an author's image or file. */
export const isMedia = (part) => part?.type === "image" || part?.type === "file";

/** An author's part as the host takes it. */
export function lowerPart(part) {
  if (typeof part === "string") return { tag: "text", val: part };
  return isMedia(part) ? { tag: part.type, val: lowerMedia(part) } : part;
}

/** An author's image or file as the host takes it. */
export function lowerMedia({ mediaType, name = null, data, url, digest, size = 0 }) {
  const sources = [
    { tag: "bytes", val: data === undefined ? undefined : bytes(data) },
    { tag: "url", val: url },
    { tag: "blob", val: digest === undefined ? undefined : { digest, size } },
  ].filter(({ val }) => val !== undefined);
  return { mediaType, name, source: sources.length === 1 ? sources[0] : sources.map(({ tag }) => tag) };
}

/** The parts of a list as the host takes them; anything else as it is. */
export const lowerParts = (parts, lower = lowerPart) => (Array.isArray(parts) ? parts.map(lower) : parts);

/** A part from the host as authors see it. */
export function raisePart({ tag, val }) {
  return tag === "text" ? val : raiseMedia(tag, val);
}

/** An image or a file from the host as authors see it. */
export function raiseMedia(type, { mediaType, name, source: { tag, val } }) {
  const named = name === null || name === undefined ? { type, mediaType } : { type, mediaType, name };
  if (tag === "blob") return { ...named, digest: val.digest, size: val.size };
  return tag === "url" ? { ...named, url: val } : { ...named, data: Uint8Array.from(val) };
}
