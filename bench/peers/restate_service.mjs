// The service that Restate's server calls. It has the same jobs as the other peers; each action is a `ctx.run`.
// Usage: `node restate_service.mjs PREFIX PORT CALLS TEXT [URL]`. The SDK is installed in PREFIX.

import { createRequire } from "node:module";

// A function of Node.js 22 that the SDK needs, for Node.js 20.
Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};

const [prefix, port, calls, text, url] = process.argv.slice(2);
const restate = createRequire(prefix + "/")("@restatedev/restate-sdk");
const say = (line) => process.stdout.write(line + "\n");
const paid = async (number) => (await fetch(`${url}/${number}`, { method: "POST", body: "{}" })).text();

const bench = restate.service({
  name: "bench",
  handlers: {
    // The time between the beginnings of two actions is that of one durable step.
    chain: async (ctx, { steps, seconds }) => {
      const begun = performance.now();
      const ticks = [];
      while (ticks.length < steps && performance.now() - begun < seconds * 1000) {
        await ctx.run("step", () => {
          ticks.push(performance.now());
          return text;
        });
      }
      return ticks;
    },
    wide: async (ctx, { actions }) => {
      const begun = performance.now();
      const work = Array.from({ length: actions }, () => ctx.run("work", () => text));
      await restate.RestatePromise.all(work);
      await ctx.run("gather", () => text);
      return performance.now() - begun;
    },
    hold: async (ctx, { messages }) => {
      for (let n = 0; n < messages; n += 1) await ctx.run("step", () => text);
      say("held");
      // The preparation kills this process here. The resume continues.
      if (process.env.HOLD) await new Promise(() => {});
      await ctx.run("next", () => text);
      say("durable");
    },
    one: async (ctx) => {
      await ctx.run("all", async () => {
        for (let n = 0; n < Number(calls); n += 1) await paid(n);
      });
      say("durable");
    },
    each: async (ctx) => {
      for (let n = 0; n < Number(calls); n += 1) await ctx.run("call", () => paid(n));
      say("durable");
    },
  },
});

restate.serve({ services: [bench], port: Number(port) }).then(() => say("ready"));
