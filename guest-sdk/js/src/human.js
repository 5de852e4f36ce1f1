// Questions to people.

import { call } from "./host.js";
import { parse, write } from "./json.js";

export const human = {
  ask(question) {
    const { text, schema, choices = [], expiresS = null, default: fallback } =
      typeof question === "object" ? question : { text: question };
    const lowered = {
      text,
      schema: write(schema, "a question's schema"),
      choices,
      expiresS,
      default: write(fallback, "a question's default"),
    };
    const { value, source } = call("human", "ask", lowered);
    return { value: parse(value, "an answer"), source };
  },
};
