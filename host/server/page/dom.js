// How the page makes its document: Preact with tagged templates instead of a build step. Texts become text nodes, so
// nothing of what a guest, a model or a person wrote is ever parsed as markup. Characters that are invisible or change
// the order of what is around them are replaced by a visible form, in every text of the document, at one place: here.

import { Component, h, options, render, Fragment } from "preact";
import htm from "htm";
import "@preact/signals";
import { visible } from "./visible.js";

export { Component, render, Fragment };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useId } from "preact/hooks";
export { signal, computed, effect, batch, untracked } from "@preact/signals";

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
    for (const name of READ_ATTRIBUTES) {
      if (typeof props[name] === "string") props[name] = visible(props[name]);
    }
  }
  before?.(vnode);
};
