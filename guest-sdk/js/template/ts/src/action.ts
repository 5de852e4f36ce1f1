// Answers what it is asked, as its `instruction` says.

import { action, llm } from "@strata/action";

/** `config` in the team file. */
export interface Config {
  instruction: string;
}

/** The structured part of the answer. */
export interface Answer {
  words: number;
}

export default action<Config, Answer>({
  needs: ["llm"],
  // `Config` as `check` holds the team file against it.
  configSchema: {
    type: "object",
    properties: { instruction: { type: "string" } },
    required: ["instruction"],
    additionalProperties: false,
  },
  run(cx) {
    const { text } = llm.ask({ system: cx.persona(), prompt: `${cx.config.instruction}\n\n${cx.text}` });
    return { content: text, data: { words: text.split(/\s+/).filter(Boolean).length } };
  },
});
