// Asks a model for a script that answers the question.
import { codeBlock, Failure, llm } from "@strata/action";

const RULES = `Write a script that finds the answer. It is the body of a function: it returns the answer as a string or an \
object. It has no network and no files. Reply with one code block.`;

export default async function write(cx) {
  const { text } = llm.ask({ system: `${cx.persona()}\n${RULES}`, prompt: `${cx.text}\n\nIn ${cx.config.language}.` });
  if (!codeBlock(text)?.closed) throw new Failure("retryable", "the model wrote no code");
  return text;
}
