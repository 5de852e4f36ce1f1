// Answers the incoming messages as its `instruction` says.

import { action, llm } from "@strata/action";

export default action({
  needs: ["llm"],
  // The schema of the `config` in the team file. `check` validates it.
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
