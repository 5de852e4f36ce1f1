// The token comes behind `#` in the address that the server prints, is removed from it at once, and lives in this tab only.
// A tab that was opened from another one asks the others for it.

import { signal } from "./dom.js";
import { draft, keepDraft } from "./storage.js";

export const token = signal(null);
/** Why a token is asked for: `missing`, `invalid`, or null if there is one. */
export const tokenProblem = signal(null);
/** What the token may do: `{name, tenant, rights}`; null as long as it is not known. */
export const identity = signal(null);

const CHANNEL = "strata-token";
/** How long another tab may take to answer. */
const ANSWER_MS = 200;

let channel = null;

/** Takes the token from the address, this tab, or another tab of this browser. */
export async function findToken() {
  listen();
  const parts = new URLSearchParams(location.hash.slice(1));
  const fromAddress = parts.get("token");
  if (fromAddress) {
    history.replaceState(history.state, "", location.pathname + location.search);
    return useToken(fromAddress);
  }
  const kept = draft("token");
  if (kept) return useToken(kept);
  const asked = await askOtherTabs();
  if (asked) return useToken(asked);
  tokenProblem.value = "missing";
}

export function useToken(text) {
  token.value = text;
  tokenProblem.value = null;
  identity.value = null;
  keepDraft("token", text);
}

export function refuseToken(refused) {
  if (token.peek() !== refused) return;
  token.value = null;
  identity.value = null;
  keepDraft("token", null);
  tokenProblem.value = "invalid";
}

/** The tenant of what the token makes. */
const ownTenant = () => identity.value?.tenant ?? "default";

/** How a run, or the run of a request, is named in paths and commands: with its tenant, if that is not the token's own. */
export function addressOf(one) {
  if (typeof one === "string") return one;
  const name = one.run ?? one.name;
  return one.tenant && one.tenant !== ownTenant() ? `${one.tenant}/${name}` : name;
}

/** Returns whether the token has one of these rights, as far as is known: what is not known is tried. */
export const may = (...rights) => !identity.value || rights.some((right) => identity.value.rights.includes(right));

/** Returns whether the token may change a run: with `operate` any, with `submit` those that it started. */
export const mayOperate = (run) => may("operate") || (may("submit") && run?.by === identity.value.name);

function listen() {
  if (channel || typeof BroadcastChannel === "undefined") return;
  channel = new BroadcastChannel(CHANNEL);
  channel.addEventListener("message", ({ data }) => {
    if (data === "ask" && token.peek()) channel.postMessage({ token: token.peek() });
  });
}

function askOtherTabs() {
  if (!channel) return Promise.resolve(null);
  return new Promise((resolve) => {
    const take = ({ data }) => {
      if (typeof data?.token === "string") resolve(data.token);
    };
    channel.addEventListener("message", take);
    channel.postMessage("ask");
    setTimeout(() => {
      channel.removeEventListener("message", take);
      resolve(null);
    }, ANSWER_MS);
  });
}
