// Writes a page with the readings, the figures and the notes.

import { action, Failure, files, type Context } from "@strata/action";
import { curve, type Reading } from "./curve.ts";

interface Config { title: string; directory: string }
interface Extreme { day: string; temperature: number }
interface Figures { mean: number; deviation: number; slope: number; lowest: Extreme; highest: Extreme }
interface Page { file: string; figures: Figures; notes: string[] }

export default action<Config, Page>({
  needs: ["files"],
  run(cx) {
    const { readings } = part<{ readings: Reading[] }>(cx, "Read");
    const figures = part<Figures>(cx, "Measure");
    const { notes, odd } = part<{ notes: string[]; odd: string[] }>(cx, "Explain");
    const file = `${cx.config.directory}/${cx.text}.html`;
    const rows: [string, string][] = [
      ["mean", degrees(figures.mean)],
      ["deviation", degrees(figures.deviation)],
      ["a day warmer by", degrees(figures.slope)],
      ["lowest", `${degrees(figures.lowest.temperature)}, ${figures.lowest.day}`],
      ["highest", `${degrees(figures.highest.temperature)}, ${figures.highest.day}`],
    ];
    files.write(file, [
      `<!doctype html>\n<meta charset="utf-8">\n<title>${text(cx.config.title)}</title>`,
      `<h1>${text(cx.config.title)}</h1>`,
      curve(readings, new Set(odd)),
      `<table>${rows.map(([name, value]) => `<tr><th>${name}<td>${text(value)}`).join("")}</table>`,
      `<ul>${notes.map((note) => `<li>${text(note)}`).join("")}</ul>`,
    ].join("\n") + "\n");
    return { content: `${cx.config.title}: ${readings.length} days on one page`, data: { file, figures, notes } };
  },
});

/** Returns the data of the message with this label. */
function part<T>(cx: Context<Config>, cause: string): T {
  const message = cx.labelled(cause);
  if (message?.data === undefined) throw new Failure("error", `rendering the page: there is no message from \`${cause}\``);
  return message.data as T;
}

const degrees = (value: number) => `${value.toFixed(1)} °C`;
const text = (value: string) => value.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);
