// Answers what it is asked, as its `instruction` says.

import { action, llm } from "@strata/action";

export default action({
  needs: ["llm"],
  // What `config` in the team file may hold; `check` holds it against this.
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
