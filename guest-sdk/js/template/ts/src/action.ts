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
  run(cx) {
    const { text } = llm.ask({ system: cx.persona(), prompt: `${cx.config.instruction}\n\n${cx.text}` });
    return { content: text, data: { words: text.split(/\s+/).filter(Boolean).length } };
  },
});
