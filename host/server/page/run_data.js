// One run that is looked at: its record, its events and the model of them. The newest events are read first, earlier ones
// while nothing else is to be done, and new ones come from the stream of the page.

import { batch, signal, useEffect, useRef, useState } from "./dom.js";
import { call, eventsAfter, items, PAGE, runPath, withQuery } from "./api.js";
import { announce } from "./announce.js";
import { money } from "./figures.js";
import { selection } from "./router.js";
import { onRun } from "./store.js";
import { follow } from "./connection.js";
import { attemptOfEvent, RunModel } from "./run_model.js";
import { addressOf } from "./token.js";

/** How many events are kept, so that a run that goes on for days does not fill the memory. */
const MAX_EVENTS = 20_000;
/** So many are dropped at once, because that leads to a new model. */
const DROPPED_AT_ONCE = 5000;
/** After so many pages of earlier events the model is made anew. */
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

  async start() {
    this.unlisten = onRun((run) => {
      if (run.id === this.run.value?.id || (!this.run.value && addressOf(run) === this.name)) this.takeRun(run);
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
      // What is shown stays while the server is away.
      if (!this.stopped.signal.aborted && (problem.status || !this.run.value)) this.problem.value = problem;
    }
  }

  takeRun(run) {
    const before = this.run.value;
    // The stream may bring a state that is older than what was read.
    if (before && String(run.updated) < String(before.updated)) return;
    this.run.value = before ? { ...before, ...run } : run;
    if (before && before.state !== run.state && run.state === "ended") announce(`${run.status}, ${money(run.spent)}`);
  }

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

  pagesFrom(after) {
    // What there is already is shown while the rest is read.
    const onPage = (page) => this.events.length || this.replace(page.slice());
    return eventsAfter(this.name, after, { signal: this.stopped.signal, most: MAX_EVENTS, onPage });
  }

  /** Reads earlier events, newest first, until the beginning or until there are as many as are kept. */
  async loadEarlier() {
    try {
      let earlier = [];
      for (let pages = 1; !this.isWhole.value; pages += 1) {
        const first = (earlier[0] ?? this.events[0])?.n ?? 0;
        const answer = await call(withQuery(runPath(this.name, "events"), { after: Math.max(0, first - PAGE - 1), limit: PAGE }), { signal: this.stopped.signal });
        const page = items(answer).filter((event) => event.n < first);
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
    this.model = RunModel.of(this.events);
    this.appendWaiting();
  }

  /** Appends what was missed, and what came while it was read. */
  appendWaiting(missed = []) {
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
      const failed = events.findLast((event) => event.kind === "action-failed" && event.retry_ms === undefined);
      if (failed) announce(`failed: ${failed.role}.${failed.action}, ${failed.fault}`);
    }
  }

  async catchUp() {
    // What comes meanwhile is later than what was missed.
    this.waiting ??= [];
    try {
      this.appendWaiting(await this.pagesFrom(this.events.at(-1)?.n ?? 0));
      await this.loadRun();
    } catch {
      // The next connection tries again, and what came without what was missed is of no use.
      this.waiting = null;
    }
  }
}

/** Returns the role that is selected, or whose work is. */
export function selectedRole(model) {
  const { role, event } = selection();
  return role ?? (event === undefined ? null : (attemptOfEvent(model, event)?.role ?? null));
}

/** Returns the value of a signal, at most once in `ms`: for what is expensive to draw. */
export function useThrottled(source, ms) {
  const [value, setValue] = useState(source.peek());
  const timer = useRef(0);
  const drawn = useRef(-Infinity);
  useEffect(() => {
    const stop = source.subscribe(() => {
      timer.current ||= setTimeout(() => {
        timer.current = 0;
        drawn.current = performance.now();
        setValue(source.peek());
      }, drawn.current + ms - performance.now());
    });
    return () => {
      stop();
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [source]);
  return value;
}
