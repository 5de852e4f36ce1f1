// How money, times, sizes and counts are written.

import { signal } from "./dom.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The time, which advances each second while the page is connected and visible. */
export const now = signal(Date.now());
/** The same in steps of ten seconds, for ages in lists. */
export const coarseNow = signal(Date.now());
/** Whether times are shown in UTC. */
export const inUtc = signal(false);

/** Advances the time. */
export function tick(time) {
  now.value = time;
  if (Math.abs(time - coarseNow.peek()) >= 10_000) coarseNow.value = time;
}

/** Returns an amount in US dollars: two digits, four below one cent. */
export function money(amount) {
  if (amount === null || amount === undefined || !Number.isFinite(Number(amount))) return "–";
  const usd = Number(amount);
  if (usd !== 0 && Math.abs(usd) < 0.01) return `$${usd.toFixed(4)}`;
  return `$${usd.toFixed(2)}`;
}

/** Returns a time in milliseconds, or NaN. */
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

/** Returns a length of time with one unit: `3 min`, `2 h`. */
export function shortDuration(ms) {
  return duration(ms).split(" ").slice(0, 2).join(" ");
}

function pair(length, unit, name, part, partName) {
  const whole = Math.floor(length / unit);
  const rest = Math.floor((length % unit) / part);
  return rest && whole < 10 ? `${whole} ${name} ${rest} ${partName}` : `${whole} ${name}`;
}

/** Returns how long ago or how far ahead a time is. */
export function relative(time, at) {
  const ms = millis(time);
  if (!Number.isFinite(ms)) return "";
  const ago = at - ms;
  if (Math.abs(ago) < 5000) return "just now";
  const whole = (length) => shortDuration(Math.floor(length / 1000) * 1000).replace(".0", "");
  return ago > 0 ? `${whole(ago)} ago` : `in ${whole(-ago)}`;
}

/** Returns the absolute time. */
export function absolute(time) {
  const ms = millis(time);
  if (!Number.isFinite(ms)) return String(time ?? "");
  const date = new Date(ms);
  if (inUtc.value) return date.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
  const two = (n) => String(n).padStart(2, "0");
  return (
    `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  );
}

/** Returns the time of day with seconds, or with minutes only. */
export function clock(time, seconds = true) {
  const whole = absolute(time);
  return whole.slice(11, seconds ? 19 : 16);
}

/** Returns a number of bytes in words. */
export function bytes(count) {
  if (!Number.isFinite(count)) return "";
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

/** Returns a number with a thin space between groups of three digits. */
export function count(number) {
  return String(number ?? 0).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** Returns a number and its noun: `1 run`, `3 runs`. */
export function plural(number, noun, many = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : many}`;
}

/** Returns the start of the day in local time, or in UTC if times are shown in it. */
export function startOfDay(at) {
  const date = new Date(at);
  if (inUtc.value) date.setUTCHours(0, 0, 0, 0);
  else date.setHours(0, 0, 0, 0);
  return date.getTime();
}
