// Views whose modules are fetched when they are needed, or a while after the first screen is shown.

import { html, useLayoutEffect, useState } from "./dom.js";
import { isOnline } from "./connection.js";
import { focusTitle } from "./router.js";
import { ProblemView, Skeleton } from "./widgets.js";

/** Returns a component of a module, whose `prepare` fetches that before it is shown. */
export function lazy(load, name) {
  let loaded = null;
  const prepare = () => load().then((module) => (loaded = module[name]));
  function Lazy(props) {
    const [problem, setProblem] = useState(null);
    const [, draw] = useState(false);
    const get = (orElse) => prepare().then(() => draw(true), orElse);
    const fail = (error) => setProblem({ title: "A part of the page could not be loaded", detail: String(error.message ?? error) });
    useState(() => loaded || get(fail));
    // There was no title when the view was opened.
    useLayoutEffect(focusTitle, [loaded]);
    if (loaded) return html`<${loaded} ...${props} />`;
    if (!problem) return html`<${Skeleton} lines=${10} />`;
    // A browser may remember that a module failed, and a server that was replaced has others.
    return html`<${ProblemView} problem=${problem} retry=${() => get((error) => (isOnline() ? location.reload() : fail(error)))} />`;
  }
  Lazy.prepare = prepare;
  return Lazy;
}
