// Makes invisible characters of a text visible, as the report does, so that nobody can hide a text or change the
// direction of what is around it. Joiners and the styles of emoji stay: many languages cannot be written without them.

const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u0600-\\u0605\\u06dd\\u070f" +
    "\\u0890\\u0891\\u08e2\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufdd0-\\ufdef\\ufe00-\\ufe0d" +
    "\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff\\u{110bd}\\u{110cd}\\u{13430}-\\u{1343f}\\u{1bca0}-\\u{1bca3}" +
    "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]|[\\ud800-\\udfff]",
  "gu",
);

function visibleForm(c) {
  const code = c.codePointAt(0);
  // Unicode has a symbol for each control character.
  return code < 0x20 ? String.fromCharCode(0x2400 + code) : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}

/** Returns the text with a visible form of each invisible character, except for line feeds and tabs. */
export function visible(text) {
  return text.replace(HIDDEN, visibleForm);
}

/** Percent-encodes a part of an address. Halves of surrogate pairs cannot be in one. */
export const encode = (text) => encodeURIComponent(String(text).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"));

/** Whether somebody who searches for a text wants this one. */
export const hasText = (text, wanted) => text.toLowerCase().includes(wanted.toLowerCase());

/** Returns a text on one line: line feeds and tabs become visible, too. */
export function oneLine(text) {
  return visible(String(text)).replace(/\s*\n\s*/g, " ⏎ ").replace(/\t/g, " ");
}
