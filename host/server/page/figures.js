// How money, times, sizes and counts are written.

import { signal } from "./dom.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The time, which advances each second while the page is connected and visible. */
export const now = signal(Date.now());
/** The same in steps of ten seconds, for ages in lists. */
export const coarseNow = signal(Date.now());
export const inUtc = signal(false);

export function tick(time) {
  now.value = time;
  if (Math.abs(time - coarseNow.peek()) >= 10_000) coarseNow.value = time;
}

/** Returns an amount in US dollars: two digits, four below one cent. */
export function money(amount) {
  const usd = Number(amount ?? NaN);
  return Number.isFinite(usd) ? `$${usd.toFixed(usd !== 0 && Math.abs(usd) < 0.01 ? 4 : 2)}` : "–";
}

export function millis(time) {
  return typeof time === "number" ? time : Date.parse(time ?? "");
}

/** Returns a length of time in words: `850 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d`. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "";
  const length = Math.max(0, ms);
  if (length < 1000) return `${Math.round(length)} ms`;
  if (length < 10_000) return `${(length / 1000).toFixed(1)} s`;
  if (length < MINUTE) return `${Math.floor(length / 1000)} s`;
  if (length < HOUR) return pair(length, MINUTE, "min", 1000, "s");
  if (length < DAY) return pair(length, HOUR, "h", MINUTE, "min");
  return pair(length, DAY, "d", HOUR, "h");
}

export function shortDuration(ms) {
  return duration(ms).split(" ").slice(0, 2).join(" ");
}

function pair(length, unit, name, part, partName) {
  const whole = Math.floor(length / unit);
  const rest = Math.floor((length % unit) / part);
  return rest && whole < 10 ? `${whole} ${name} ${rest} ${partName}` : `${whole} ${name}`;
}

export function relative(time, at) {
  const ms = millis(time);
  if (!Number.isFinite(ms)) return "";
  const ago = at - ms;
  if (Math.abs(ago) < 5000) return "just now";
  return ago > 0 ? `${wholeDuration(ago)} ago` : `in ${wholeDuration(-ago)}`;
}

/** In the largest unit, without parts of seconds. */
export const wholeDuration = (ms) => shortDuration(Math.floor(ms / 1000) * 1000).replace(".0", "");

/** A time of day, with the day if it is another one. */
export function moment(time) {
  const [day, of] = absolute(time).split(" ");
  return `${day === absolute(Date.now()).split(" ")[0] ? "" : `${day} `}${(of ?? "").slice(0, 5)}`;
}

export function absolute(time) {
  const ms = millis(time);
  if (!Number.isFinite(ms)) return String(time ?? "");
  const offset = inUtc.value ? 0 : new Date(ms).getTimezoneOffset() * MINUTE;
  return `${new Date(ms - offset).toISOString().slice(0, 19).replace("T", " ")}${inUtc.value ? " UTC" : ""}`;
}

export const clock = (time) => absolute(time).slice(11, 19);

export function bytes(count) {
  if (!Number.isFinite(count)) return "";
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

export function count(number) {
  return String(number ?? 0).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** Returns a number and its noun: `1 run`, `3 runs`. */
export function plural(number, noun, many = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : many}`;
}

export function startOfDay(at) {
  const date = new Date(at);
  if (inUtc.value) date.setUTCHours(0, 0, 0, 0);
  else date.setHours(0, 0, 0, 0);
  return date.getTime();
}
