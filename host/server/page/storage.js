// What the browser keeps: choices in this browser, drafts in this tab. A browser may forbid both, and then nothing is kept.

function read(area, name) {
  try {
    return JSON.parse(area().getItem(`strata.${name}`) ?? "null");
  } catch {
    return null;
  }
}

function write(area, name, value) {
  try {
    if (value === null || value === undefined) area().removeItem(`strata.${name}`);
    else area().setItem(`strata.${name}`, JSON.stringify(value));
  } catch {
    // Nothing depends on it.
  }
}

const browser = () => window.localStorage;
const tab = () => window.sessionStorage;

/** Returns a choice that was made in this browser, or null. */
export const choice = (name) => read(browser, name);
/** Keeps a choice in this browser. */
export const keepChoice = (name, value) => write(browser, name, value);
/** Returns what this tab keeps under a name, or null. */
export const draft = (name) => read(tab, name);
/** Keeps something in this tab, over a reload. */
export const keepDraft = (name, value) => write(tab, name, value);
