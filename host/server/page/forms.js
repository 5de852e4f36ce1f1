// What forms share.

import { html, typed, useRef, useState } from "./dom.js";
import { newKey } from "./api.js";
import { ActionButton, ProblemView, Sheet } from "./widgets.js";

/** A field of one line, or of `rows`, with a remark. */
export const Field = ({ label, note, rows, take, ...rest }) => html`<label>${label}${note && html` <span class="note">${note}</span>`}${
  rows ? html`<textarea rows=${rows} onInput=${typed(take)} ...${rest}></textarea>` : html`<input type="text" autocomplete="off" onInput=${typed(take)} ...${rest} />`}</label>`;

/** A form that `send`s something, and says why that failed. A repeat has the same key while nobody knows what became of the first. */
export function Form({ send, word, busyWord = "Sending…", canSend = true, children }) {
  const key = useRef(null);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    key.current ??= newKey();
    try {
      await send(key.current);
      key.current = null;
    } catch (failed) {
      if (failed.status) key.current = null;
      setProblem(failed);
    }
    setBusy(false);
  };
  return html`<form onSubmit=${submit}>${children}<${ProblemView} problem=${problem} />
    <p class="controls"><${ActionButton} type="submit" class="primary" disabled=${isBusy || !canSend}>${isBusy ? busyWord : word}<//></p></form>`;
}

export const FormSheet = ({ title, onClose, ...rest }) => html`<${Sheet} title=${title} onClose=${onClose}><${Form} ...${rest} /><//>`;
