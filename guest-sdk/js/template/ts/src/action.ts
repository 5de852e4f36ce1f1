// Answers the incoming messages as its `instruction` says.

import { action, llm } from "@strata/action";

/** The `config` of the team file. */
export interface Config {
  instruction: string;
}

/** The structured content of the output. */
export interface Answer {
  words: number;
}

export default action<Config, Answer>({
  needs: ["llm"],
  // The JSON Schema of `Config`. `check` validates the config of the team file.
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
