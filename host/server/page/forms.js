// What forms share.

import { useState } from "./dom.js";

/** Returns what is wrong with a text that should be JSON, or null. */
export function jsonError(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `no JSON: ${error.message}`;
  }
}

/** Returns `[values, set]`: what is in the fields of a form, and a function from a field's name to its handler. */
export function useFields(initial) {
  const [values, setValues] = useState(initial);
  return [values, (name) => ({ target }) => setValues((before) => ({ ...before, [name]: target.value }))];
}

/** Returns `[submit, busy, problem, setProblem]` of a form that sends something with `send`. */
export function useSubmit(send) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    await send().catch(setProblem);
    setBusy(false);
  };
  return [submit, busy, problem, setProblem];
}
