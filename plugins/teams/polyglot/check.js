// Checks that the page contains all figures and notes.
import { Failure, files } from "@strata/action";

export default function check(cx) {
  const { file, figures, notes } = cx.data;
  const page = files.readText(file);
  const wanted = [figures.mean, figures.deviation, figures.slope].map((value) => `${value.toFixed(1)} °C`);
  const missing = [...wanted, ...notes].filter((each) => !page.includes(each));
  if (missing.length > 0) throw new Failure("error", `\`${file}\` does not contain ${missing.join("; ")}`);
  return { content: `${file} contains all ${wanted.length + notes.length} statements`, data: { file } };
}
