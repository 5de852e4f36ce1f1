// Holds the page against what it was made of: each figure and each note has to be on it.
import { Failure, files } from "@strata/action";

export default function check(cx) {
  const { file, figures, notes } = cx.data;
  const page = files.readText(file);
  const wanted = [figures.mean, figures.deviation, figures.slope].map((value) => `${value.toFixed(1)} °C`);
  const missing = [...wanted, ...notes].filter((each) => !page.includes(each));
  if (missing.length > 0) throw new Failure("error", `\`${file}\` lacks ${missing.join("; ")}`);
  return { content: `${file} holds all ${wanted.length + notes.length} statements`, data: { file } };
}
