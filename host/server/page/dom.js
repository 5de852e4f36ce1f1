// How the page makes its document: Preact with tagged templates. Texts become text nodes, so nothing that somebody wrote is
// parsed as markup, and each of them gets a visible form of characters that are invisible or reorder others, here.

import { Component, h, options, render } from "preact";
import htm from "htm";
import "@preact/signals";
import { visible } from "./visible.js";

export { Component, render };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useId } from "preact/hooks";
export { signal, computed, effect, batch, untracked } from "@preact/signals";

/** Returns a handler that passes on what was put into a field. */
export const typed = (take) => (event) => take(event.target.value);

/** Makes elements from a template: html`<b class=${c}>${text}</b>`. */
export const html = htm.bind(h);

// The signals leave out components whose properties are the same objects as before. The model of a run is one object that
// changes, so its components are drawn again whenever those around them are.
Component.prototype.shouldComponentUpdate = undefined;

/** Attributes that a person reads. Values of fields are not among them: they are sent back as they are. */
const READ_ATTRIBUTES = ["title", "aria-label", "aria-valuetext", "placeholder", "alt", "label"];

const before = options.vnode;
options.vnode = (vnode) => {
  const { type, props } = vnode;
  // A text has no type, and is its own properties.
  if (type === null && typeof props === "string") vnode.props = visible(props);
  else if (typeof type === "string") {
    // A button in a form sends it unless it says otherwise.
    if (type === "button") props.type ??= "button";
    for (const name of READ_ATTRIBUTES) {
      if (typeof props[name] === "string") props[name] = visible(props[name]);
    }
  }
  before?.(vnode);
};
