// Single keys. They do nothing inside of fields and dialogs, and can be switched off.

import { signal, useLayoutEffect, useRef } from "./dom.js";
import { choice, keepChoice } from "./storage.js";

export const areOn = signal(choice("keys") !== false);

/** How long the second key of a sequence may take. */
const SEQUENCE_MS = 1200;

/** What was typed for the field for searching, which will be there soon; null if nobody waits for it. */
export const keysFor = { search: null };

/** What is bound, in the order in which its components were drawn first: what is within another comes after it. */
const layers = [];
let drawn = 0;
let first = null;
let firstTimer = 0;

export function setKeys(on) {
  areOn.value = on;
  keepChoice("keys", on);
}

/**
 * Binds keys from the moment when a component is shown. The binding of the innermost and newest component counts. A sequence is
 * written `g n`.
 */
export function useKeys(bindings) {
  const { current: layer } = useRef({ order: 0 });
  layer.order ||= drawn += 1;
  layer.bindings = bindings;
  // What is seen can be used: an effect after the paint would be too late.
  useLayoutEffect(() => {
    layers.push(layer);
    layers.sort((a, b) => a.order - b.order);
    return () => layers.splice(layers.indexOf(layer), 1);
  }, []);
}

/** The next or the previous entry of a list; if none is selected, the first or the last one. */
export const neighbour = (list, at, by) => (at < 0 ? list.at(by > 0 ? 0 : -1) : list[Math.max(0, Math.min(list.length - 1, at + by))]);

export const stepKeys = (list, at, choose) => {
  const step = (by) => () => list.length && choose(neighbour(list, at, by));
  return { j: step(1), k: step(-1) };
};

function isField(element) {
  if (!element) return false;
  if (element.isContentEditable || ["TEXTAREA", "SELECT"].includes(element.tagName)) return true;
  return element.tagName === "INPUT" && !["checkbox", "radio", "button", "range"].includes(element.type);
}

/** Elements that use the arrows and Enter themselves. */
function usesKey(element, key) {
  if (!element) return false;
  const role = element.getAttribute?.("role");
  if (key.startsWith("Arrow")) return ["tab", "slider", "listbox", "option", "menuitem"].includes(role) || element.type === "range";
  if (key === "Enter" || key === " ") return ["BUTTON", "A", "SUMMARY"].includes(element.tagName);
  return false;
}

function binding(key) {
  for (let at = layers.length - 1; at >= 0; at -= 1) {
    if (layers[at].bindings[key]) return layers[at].bindings[key];
  }
  return null;
}

function press(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isField(event.target) || document.querySelector("dialog[open]")) return;
  const key = event.key;
  if (!areOn.value && key !== "Escape") return;
  if (keysFor.search !== null && key.length === 1) {
    keysFor.search += key;
    event.preventDefault();
    return;
  }
  if (usesKey(event.target, key)) return;
  const name = first ? `${first} ${key}` : key;
  clearTimeout(firstTimer);
  first = null;
  const act = binding(name);
  if (act) {
    event.preventDefault();
    act(event);
  } else if (layers.some((layer) => Object.keys(layer.bindings).some((bound) => bound.startsWith(`${key} `)))) {
    first = key;
    firstTimer = setTimeout(() => (first = null), SEQUENCE_MS);
  }
}

export function startKeys() {
  document.addEventListener("keydown", press);
}

export const KEYS = [
  ["g n", "Needs you"], ["g r", "Runs"], ["/", "search"], ["j k", "next, previous"], ["Enter", "open"], ["Esc", "close, back"],
  ["x", "select"], ["a", "approve, then Enter"], ["r", "reject, then Enter"], ["e", "edit the arguments"], ["1 – 7", "tabs of a run"],
  ["f F", "next, previous failure"], ["← →", "checkpoint or bar"], [".", "Live"], ["s", "send a message"], ["c", "copy the id"],
  ["n", "new run"], ["?", "these keys"],
];
