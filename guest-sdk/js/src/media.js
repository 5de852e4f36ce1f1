// Parts of messages: conversion between those of authors and those of the host's interfaces.
//
// An author's part is a string, or an object with `type`, `mediaType`, and one of `data`, `url` and `digest`. Any other
// value is passed on unchanged, and rejected by `validate.js`.

import { bytes } from "./environment.js";
import { HostError } from "./errors.js";
import { call } from "./host.js";

export const media = {
  load: ({ data, digest, url }) => {
    if (data !== undefined) return bytes(data);
    if (digest !== undefined) return Uint8Array.from(call("media", "load", digest));
    throw new HostError("invalid", `loading \`${url}\`: the host does not read addresses`);
  },
};

/** Returns an image with these bytes. */
export const image = (mediaType, data) => ({ type: "image", mediaType, data });

/** Returns a file that is not an image, with these bytes. */
export const file = (mediaType, data) => ({ type: "file", mediaType, data });

/** Returns whether a part is an image or a file of an author. */
export const isMedia = (part) => part?.type === "image" || part?.type === "file";

/** Converts an author's part to one of the host. */
export function lowerPart(part) {
  if (typeof part === "string") return { tag: "text", val: part };
  return isMedia(part) ? { tag: part.type, val: lowerMedia(part) } : part;
}

/** Converts an author's image or file to one of the host. */
export function lowerMedia({ mediaType, name = null, data, url, digest, size = 0 }) {
  const sources = [
    { tag: "bytes", val: data === undefined ? undefined : bytes(data) },
    { tag: "url", val: url },
    { tag: "blob", val: digest === undefined ? undefined : { digest, size } },
  ].filter(({ val }) => val !== undefined);
  return { mediaType, name, source: sources.length === 1 ? sources[0] : sources.map(({ tag }) => tag) };
}

/** Converts the parts of an array. Any other value is returned unchanged. */
export const lowerParts = (parts, lower = lowerPart) => (Array.isArray(parts) ? parts.map(lower) : parts);

/** Converts a part of the host to one of an author. */
export function raisePart({ tag, val }) {
  return tag === "text" ? val : raiseMedia(tag, val);
}

/** Converts an image or a file of the host to one of an author. */
export function raiseMedia(type, { mediaType, name, source: { tag, val } }) {
  const named = name === null || name === undefined ? { type, mediaType } : { type, mediaType, name };
  if (tag === "blob") return { ...named, digest: val.digest, size: val.size };
  return tag === "url" ? { ...named, url: val } : { ...named, data: Uint8Array.from(val) };
}
