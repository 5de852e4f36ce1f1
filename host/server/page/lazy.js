// Views whose modules are fetched after the first screen is shown.

import { html, useEffect, useState } from "./dom.js";
import { focusTitle } from "./router.js";
import { ProblemView, Skeleton } from "./widgets.js";

/** Returns a component that shows what `load` gets, and whose `prepare` gets it before it is shown. */
export function lazy(load) {
  let loaded = null;
  const prepare = () => load().then((component) => (loaded = component));
  function Lazy(props) {
    const [problem, setProblem] = useState(null);
    const [round, setRound] = useState(0);
    const isShown = loaded !== null;
    useEffect(() => {
      // It may have been fetched since this was drawn.
      if (!isShown) prepare().then(() => setRound(-1), (error) => setProblem({ title: "A part of the page could not be loaded", detail: String(error.message ?? error), hint: "If the server was replaced, load the page again." }));
    }, [round]);
    // There was no title when the view was opened.
    useEffect(focusTitle, [loaded]);
    if (isShown) return html`<${loaded} ...${props} />`;
    if (!problem) return html`<${Skeleton} lines=${10} />`;
    return html`<${ProblemView} problem=${problem} retry=${() => {
      setProblem(null);
      setRound(round + 1);
    }} />`;
  }
  Lazy.prepare = prepare;
  return Lazy;
}
