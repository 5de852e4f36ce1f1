// TypeScript without its types. They are not checked.

import source from "source:sucrase";

let sucrase;

/** Returns the JavaScript of a script in TypeScript, line by line. Throws an error with a `loc` for a syntax error. */
export function withoutTypes(text) {
  sucrase ??= new Function(source)();
  try {
    return sucrase.transform(text, { transforms: ["typescript"], disableESTransforms: true }).code;
  } catch (error) {
    error.message = error.message.replace(/^.*?: /, "").replace(/ \(\d+:\d+\)$/, "");
    throw error;
  }
}
