// What is around all views: the bar, the line about the connection, the foot, the keys, and the field for a token.

import { html, signal, typed, useState } from "./dom.js";
import { notice, lostSince, state } from "./connection.js";
import { inUtc, moment } from "./figures.js";
import { areOn, KEYS, setKeys } from "./keys.js";
import { Link, openSearch, route } from "./router.js";
import { choice, keepChoice } from "./storage.js";
import { needs, shownSpent, spentToday } from "./store.js";
import { identity, tokenProblem, useToken } from "./token.js";
import { Check, Choose, Sheet } from "./widgets.js";

const theme = signal(choice("theme") ?? "system");
inUtc.value = choice("utc") === true;

const WORDS = {
  live: ["ok", "live"], polling: ["ok", "asks every 5 s"], connecting: ["cut", "connecting"], lost: ["bad", "no connection"], hidden: ["cut", "paused"],
};

function Connection() {
  const [kind, word] = WORDS[state.value] ?? WORDS.connecting;
  return html`<span class="connection" title=${`Connection: ${word}`}><span class=${`dot ${kind}`} aria-hidden="true"></span>${word}</span>`;
}

export function Bar() {
  const first = route.value.segments[0];
  const { total } = needs.value;
  const entry = (to, name, text) => html`<${Link} to=${to} aria-current=${first === name ? "page" : undefined}>${text}<//>`;
  return html`<a class="skip" href="#main" onClick=${(event) => {
    event.preventDefault();
    document.querySelector("main h1, main a, main button")?.focus();
  }}>To the content</a>
  <header class="top"><span class="server-name" title=${location.host}>${identity.value?.tenant ? `${identity.value.tenant} · ` : ""}${location.host}</span>
    <nav aria-label="Views">${entry("/needs", "needs", html`Needs you ${total > 0 ? html`<span class="badge">${total}</span>` : html`<span class="count">0</span>`}`)}
      ${entry("/runs", "runs", "Runs")}${entry("/compare", "compare", "Compare")}${entry("/server", "server", "Server")}</nav>
    <span class="bar-right"><${Link} to="/runs" open=${openSearch} class="search-link" title="Search ( / )">Search <kbd>/</kbd><//>
      ${spentToday.value && html`<span class="spent-today" title="What the runs that changed today have spent">${shownSpent()} today</span>`}
      <${Connection} /></span></header>`;
}

export function ConnectionLine() {
  if (notice.value === "lost") return html`<div class="connection-line bad" role="status">No connection since ${moment(lostSince.value)}, trying again. What is shown may be out of date.</div>`;
  if (notice.value === "back") return html`<div class="connection-line ok" role="status">Up to date</div>`;
  return null;
}

export function Footer({ onKeys }) {
  const changeTheme = (chosen) => {
    theme.value = chosen;
    const isSystem = chosen === "system";
    keepChoice("theme", isSystem ? null : chosen);
    // `first.js` does the same before the first paint.
    if (isSystem) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
  };
  const changeUtc = (isOn) => {
    inUtc.value = isOn;
    keepChoice("utc", isOn);
  };
  return html`<footer class="foot"><span>Colours <${Choose} label="Colours" value=${theme.value} options=${[["system", "as the system"], ["light", "light"], ["dark", "dark"]]} take=${changeTheme} /></span>
    <${Check} isOn=${inUtc.value} take=${changeUtc}>Times in UTC<//>
    <button class="small" onClick=${onKeys}>Keys <kbd>?</kbd></button>
    ${identity.value && html`<span class="note">Token <b>${identity.value.name}</b>: ${identity.value.rights.join(", ")}</span>`}</footer>`;
}

export function KeysSheet({ onClose }) {
  return html`<${Sheet} title="Keys" isNarrow onClose=${onClose}>
    <table class="keys"><tbody>${KEYS.map(([key, text]) => html`<tr><td><kbd>${key}</kbd></td><td>${text}</td></tr>`)}</tbody></table>
    <${Check} isOn=${areOn.value} take=${setKeys}>Single keys do something<//><//>`;
}

/** Asks for a token, because there is none or because the server does not accept it any more. */
export function TokenForm() {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) useToken(text.trim());
  };
  const isInvalid = tokenProblem.value === "invalid";
  return html`<form class="token-form panel" onSubmit=${submit}><h1 tabindex="-1">${isInvalid ? "This token is not accepted any more" : "A token is needed"}</h1>
    <p>${isInvalid ? "It was revoked, or it has expired. " : ""}The server prints an address with a token when it starts. <code>strata-host token create NAME --rights view,answer</code> makes another one.</p>
    <label>Token<input type="password" data-first autocomplete="off" autofocus value=${text} onInput=${typed(setText)} /></label>
    <p class="controls"><button type="submit" class="primary" disabled=${!text.trim()}>Continue</button></p></form>`;
}
