// One run that is looked at: its record, its events and the model of them. The newest events are read first, earlier ones
// while nothing else is to be done, and new ones come from the stream of the page.

import { batch, signal } from "./dom.js";
import { call, items, runPath, withQuery } from "./api.js";
import { announce } from "./announce.js";
import { money } from "./figures.js";
import { onRun } from "./store.js";
import { follow, state } from "./connection.js";
import { RunModel } from "./run_model.js";

const PAGE = 500;
/** How many events the page keeps, so that a run that goes on for days does not fill the memory. */
const MAX_EVENTS = 20_000;
/** How many are dropped at once when there are more, because dropping leads to a new model. */
const DROPPED_AT_ONCE = 5000;
/** How many pages of earlier events are read before the model is made anew. */
const PAGES_PER_MODEL = 8;

export class RunData {
  constructor(name) {
    this.name = name;
    this.run = signal(null);
    this.problem = signal(null);
    /** Rises when `model` or `events` changed. */
    this.version = signal(0);
    this.model = new RunModel();
    this.events = [];
    /** Whether the first events of the run are among `events`. */
    this.isWhole = signal(false);
    this.eventsProblem = signal(null);
    this.isLoaded = signal(false);
    /** Those that came before the earlier ones were read. */
    this.waiting = null;
    this.stopped = new AbortController();
  }

  /** Begins to read the run, and to follow it. */
  async start() {
    this.unlisten = onRun((run) => {
      if (run.id === this.run.value?.id || (!this.run.value && run.name === this.name)) this.takeRun(run);
    });
    await this.loadRun();
    if (this.stopped.signal.aborted || this.problem.value) return;
    follow(this.name, (events, what) => this.takeStream(events, what));
    await this.loadEvents();
  }

  stop() {
    this.unlisten?.();
    this.stopped.abort();
  }

  async loadRun() {
    try {
      const run = await call(runPath(this.name), { signal: this.stopped.signal });
      batch(() => {
        this.problem.value = null;
        this.takeRun(run);
      });
    } catch (problem) {
      if (!this.stopped.signal.aborted) this.problem.value = problem;
    }
  }

  takeRun(run) {
    const before = this.run.value;
    // The stream may bring a state that is older than what was read.
    if (before && String(run.updated) < String(before.updated)) return;
    this.run.value = before ? { ...before, ...run } : run;
    if (before && before.state !== run.state && run.state === "ended") announce(`${run.status}, ${money(run.spent)}`);
  }

  page(after) {
    return call(withQuery(runPath(this.name, "events"), { after, limit: PAGE }), { signal: this.stopped.signal }).then(items);
  }

  /** Reads the newest events, then what is before them. */
  async loadEvents() {
    const newest = Number(this.run.value?.events);
    this.waiting = [];
    try {
      if (Number.isFinite(newest) && newest > PAGE) {
        this.replace(await this.pagesFrom(newest - PAGE));
        this.loadEarlier();
      } else {
        this.replace(await this.pagesFrom(0));
        this.isWhole.value = true;
      }
      this.eventsProblem.value = null;
    } catch (problem) {
      if (!this.stopped.signal.aborted) this.eventsProblem.value = problem;
    }
    this.isLoaded.value = true;
  }

  /** Reads pages until there are no more. */
  async pagesFrom(after) {
    const all = [];
    let from = after;
    for (;;) {
      const page = await this.page(from);
      all.push(...page);
      if (page.length < PAGE || all.length >= MAX_EVENTS) return all;
      from = page.at(-1).n;
      // What there is already is shown while the rest is read.
      if (!this.events.length) this.replace(all.slice());
    }
  }

  /** Reads earlier events, newest first, until the beginning or until there are as many as are kept. */
  async loadEarlier() {
    try {
      let earlier = [];
      for (let pages = 1; !this.isWhole.value; pages += 1) {
        const first = (earlier[0] ?? this.events[0])?.n ?? 0;
        const page = (await this.page(Math.max(0, first - PAGE - 1))).filter((event) => event.n < first);
        earlier = [...page, ...earlier];
        const isWhole = first - PAGE - 1 <= 0;
        const isFull = this.events.length + earlier.length >= MAX_EVENTS - DROPPED_AT_ONCE;
        if (isWhole || isFull || pages % PAGES_PER_MODEL === 0) {
          this.replace([...earlier, ...this.events]);
          earlier = [];
          this.isWhole.value = isWhole;
          if (isFull) return;
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    } catch {
      // The button for earlier events tries again.
    }
  }

  /** Replaces the events up to the last of `events`. Later ones stay, unless they do not count any more. */
  replace(events, { dropLater = false } = {}) {
    const last = events.at(-1)?.n ?? 0;
    const later = dropLater ? [] : this.events.filter((event) => event.n > last);
    this.events = later.length ? [...events, ...later] : events;
    this.model = new RunModel();
    for (const event of this.events) this.model.apply(event);
    const came = this.waiting ?? [];
    this.waiting = null;
    this.append(came);
    this.version.value += 1;
  }

  appendMissed(missed) {
    const came = this.waiting ?? [];
    this.waiting = null;
    this.append(missed);
    this.append(came);
    this.version.value += 1;
  }

  append(events) {
    let newest = this.events.at(-1)?.n ?? 0;
    for (const event of events) {
      if (event.n <= newest) continue;
      newest = event.n;
      this.events.push(event);
      this.model.apply(event);
    }
    if (this.events.length > MAX_EVENTS) {
      this.isWhole.value = false;
      this.replace(this.events.slice(DROPPED_AT_ONCE), { dropLater: true });
    }
  }

  takeStream(events, what) {
    if (this.stopped.signal.aborted) return;
    if (what?.reset) {
      this.loadRun();
      this.loadEvents();
      return;
    }
    if (what?.lineage) {
      // What came after the point where the lineage branches off does not count any more.
      this.replace(this.events.filter((event) => event.n <= what.lineage.after), { dropLater: true });
      return;
    }
    if (what?.connected) {
      if (this.isLoaded.value) this.catchUp();
      return;
    }
    if (this.waiting) {
      this.waiting.push(...events);
    } else {
      this.append(events);
      this.version.value += 1;
    }
  }

  /** Reads what came while there was no connection. */
  async catchUp() {
    // What comes meanwhile is later than what was missed.
    this.waiting ??= [];
    try {
      this.appendMissed(await this.pagesFrom(this.events.at(-1)?.n ?? 0));
      await this.loadRun();
    } catch {
      // The next connection tries again, and what came without what was missed is of no use.
      this.waiting = null;
    }
  }
}

/** Whether what is shown may be out of date. */
export const isStale = () => state.value === "lost";
