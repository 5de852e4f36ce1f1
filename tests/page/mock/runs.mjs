// Runs in every state that the page shows, as a server has them after a morning's work.

const MINUTE = 60_000;

/** A run that is done: three roles, a file, and a Markdown output. */
export function addDone(server, name = "snake-1", began = Date.now() - 50 * MINUTE) {
  const run = server.add(name, { began, budget: 5, labels: { nightly: "yes" } });
  run.begin().step(0).act("Product", "WritePrd", { says: "# Requirements\n\nA snake, a board, a score.", cost: 0.021 });
  run.message("Product", "# Requirements\n\nA snake, a board, a score.", ["Architect"], "WritePrd");
  run.commit(0).step(1).act("Architect", "Design", { says: "Two modules: board and snake.", cost: 0.034, took: 4200 });
  run.message("Architect", "Two modules: **board** and **snake**.", ["Coder"], "Design");
  run.commit(1).wait(95_000).step(2).fail("Coder", "WriteCode", { fault: "timeout", cause: "wall-time", message: "the action took longer than 120 s", retry_ms: 500, backtrace: [] });
  run.wait(500).act("Coder", "WriteCode", { attempt: 2, says: "snake.py", cost: 0.08, took: 8000 });
  run.file("src/snake.py", "import curses\n\n\ndef main(screen):\n    board = Board(20, 40)\n    while True:\n        board.step()\n", "Coder.WriteCode");
  run.file("src/board.py", "class Board:\n    def __init__(self, height, width):\n        self.cells = set()\n", "Coder.WriteCode");
  run.file("README.md", "# Snake\n\nRun `python3 src/snake.py`.\n", "Coder.WriteCode");
  run.message("Coder", "# Snake\n\nThe game is in `src/snake.py`.\n\n- arrows turn the snake\n- **q** ends it\n\n```python\nboard = Board(20, 40)\n```\n\nSee [curses](https://docs.python.org/3/library/curses.html).", ["Boss"], "WriteCode");
  return run.commit(2).end("done");
}

/** A run that waits for an approval and for an answer with a schema. */
export function addWaiting(server, name = "campaign-7") {
  const run = server.add(name, { team: "marketing", began: Date.now() - 12 * MINUTE, budget: 2, idea: "announce version 2 to our customers", roles: ["Writer", "Mailer", "Boss"], by: "ann" });
  run.begin().step(0).act("Writer", "Draft", { says: "Dear customers, version 2 is here.", cost: 0.09 });
  run.message("Writer", "Dear customers, version 2 is here. It is twice as fast, and nothing that you have will break.", ["Mailer"], "Draft");
  run.commit(0).step(1).turn("Mailer", 0, { text: "I will send it to the list.", calls: [{ tool: "send_mail", arguments: '{"list":"customers","subject":"Version 2"}', outcome: { kind: "waits-for-human" } }], cost: 0.04 });
  run.ask("Mailer", "ask-1-1-0-0", "May this call be made?", {
    action: "send_mail", tool: "send_mail", arguments: { list: "customers", subject: "Version 2 is here", urgent: false, batch: 500 },
    input_schema: { type: "object", required: ["list", "subject"], properties: { list: { type: "string", enum: ["customers", "press", "staff"] }, subject: { type: "string" }, urgent: { type: "boolean" }, batch: { type: "integer" } } },
    said: "I will send it to the list.", expires: new Date(Date.now() + 42 * MINUTE).toISOString(), default: { approve: false },
  });
  run.ask("Boss", "ask-1-2-0-0", "How many customers are told first, and on which day?", {
    action: "answer", schema: { type: "object", required: ["count", "day"], properties: { count: { type: "integer", maximum: 1000, description: "at most a thousand" }, day: { type: "string", format: "date" }, tone: { type: "string", enum: ["friendly", "formal", "short"] }, note: { type: "string" } } },
  });
  return run.end("waiting");
}

/** A run whose component trapped. */
export function addFailed(server, name = "printer-3") {
  const run = server.add(name, { team: "printing", began: Date.now() - 3 * MINUTE, idea: "print the invoices of May", roles: ["Reader", "Printer"] });
  run.begin().step(0).act("Reader", "Read", { cost: 0.42, says: "31 invoices" });
  run.message("Reader", "31 invoices", ["Printer"], "Read");
  run.commit(0).step(1).act("Printer", "Sort", { cost: 0 });
  run.fail("Printer", "Print", { index: 1, message: "the component trapped: wasm `unreachable` instruction executed\npanicked at src/lib.rs:41: index out of bounds: the len is 31 but the index is 31", backtrace: ["__rustc::rust_panic", "core::panicking::panic_fmt", "printer::page::layout", "printer::run"] });
  return run.end("failed");
}

/** A run that spent its budget. */
export function addOutOfBudget(server, name = "research-2") {
  const run = server.add(name, { team: "research", began: Date.now() - 30 * MINUTE, budget: 0.5, idea: "what do birds eat in winter?", roles: ["Analyst"] });
  run.begin().step(0);
  for (let turn = 0; turn < 5; turn += 1) {
    run.turn("Analyst", turn, { text: `Part ${turn + 1} of the answer needs another source.`, calls: [{ tool: "files/read_text", arguments: `{"path":"birds-${turn}.txt"}`, result: "Blackbirds eat berries." }, { tool: "search", arguments: '{"query":"seeds"}', outcome: turn === 2 ? { kind: "rejected", reason: "the arguments do not match the schema" } : undefined }], cost: 0.1 });
    run.tool("Analyst", turn, 0, "files/read_text").tool("Analyst", turn, 1, "search", turn === 3 ? { fails: "error" } : {});
  }
  run.replacements = [{ turn: 3, messages: [1, 4], how: "summary", summary: "Birds eat berries and seeds.", model: "default", cost: 0.01, tokens_before: 9100, tokens_after: 2300, failure: null }];
  run.emit("action-suspended", { step: 0, role: "Analyst", index: -1, action: "turn", attempt: 1, reason: "out-of-budget" });
  return run.end("out-of-budget");
}

/** A run of which nobody knows whether it ordered something. */
export function addInDoubt(server, name = "order-9") {
  const run = server.add(name, { team: "shop", began: Date.now() - 8 * MINUTE, idea: "order 20 chairs", roles: ["Buyer"] });
  run.begin().step(0);
  const about = { step: 0, role: "Buyer", index: 0, action: "Order" };
  run.emit("action-started", { ...about, attempt: 1, digest: "00" });
  run.wait(300).emit("host-call-begun", { ...about, call: "http", what: "POST https://shop.example/orders {\"chairs\":20}" });
  return run.wait(30_000).end("in-doubt");
}

/** A run at work. */
export function addRunning(server, name = "poem-4") {
  const run = server.add(name, { team: "poets", began: Date.now() - 20_000, budget: 1, idea: "a poem about the sea", roles: ["Poet", "Critic", "Printer"] });
  run.begin().step(0).turn("Poet", 0, { text: "The sea is a mirror.", cost: 0.011 });
  run.message("Poet", "The sea is a mirror.", ["Critic"], "Poet");
  run.commit(0).step(1);
  run.clock = Date.now() - 3000;
  run.emit("action-started", { step: 1, role: "Critic", index: 0, action: "Judge", attempt: 1, digest: "00" });
  run.changed({ state: "running" });
  return run;
}

/** A run that works on a list of files, and goes on in the morning. */
export function addNightly(server, name = "nightly-1") {
  const run = server.add(name, { team: "reviews", began: Date.now() - 40 * MINUTE, budget: 4, idea: "review what changed today", roles: ["Splitter", "Review", "Editor"] });
  run.begin().step(0).act("Splitter", "Split", { cost: 0.02, says: "20 files" });
  run.message("Splitter", "20 files changed.", ["Review"], "Split");
  run.emit("expanded", { message: "m2", role: "Review", items: 20 });
  for (let item = 0; item < 19; item += 1) {
    const about = { step: 0, role: "Critic", index: 0, action: "Read", in: [{ step: 0, role: "Review", item }] };
    run.emit("action-started", { ...about, attempt: 1, digest: "00" });
    run.wait(400);
    if (item > 17) continue;
    if (item === 5) run.emit("action-failed", { ...about, attempt: 1, fault: "error", cause: "declared", message: "the file is not UTF-8", digest: "00", backtrace: [] });
    else run.emit("action-finished", { ...about, attempt: 1, digest: "00", output: { content: "fine", data: null, to: [] } });
    run.emit("item-ended", { role: "Review", item, status: item === 5 ? "failed" : "done" });
  }
  run.emit("action-logged", { step: 0, role: "Splitter", index: 0, action: "Split", lines: ["read 20 names", "skipped 3 that are binary"], left_out: 12 });
  const due = new Date(Date.now() + 3 * 3_600_000).toISOString();
  run.emit("timer-set", { timer: "t1", role: "Editor", due, for: "message" });
  run.emit("notify-failed", { notify: "chat", id: "n1", reason: "https://chat.example answers 404" });
  run.changed({ timer: due });
  return run.end("waiting");
}

/** A run with very many events. */
export function addLong(server, count, name = "long-1") {
  const run = server.add(name, { team: "long", began: Date.now() - count * 400, idea: "count", roles: Array.from({ length: 12 }, (_, at) => `Worker${at + 1}`) });
  run.begin();
  for (let step = 0; run.n < count - 40; step += 1) {
    run.step(step);
    for (const role of run.roles.slice(0, 6)) run.act(role, "Count", { took: 40, cost: 0.0004, says: `${step} ok` });
    if (step % 40 === 7) run.fail("Worker3", "Count", { retry_ms: 10 });
    if (step % 90 === 50) run.wait(600_000);
    run.commit(step);
  }
  run.clock = Date.now();
  run.changed({ state: "running", status: "running" });
  return run;
}

/** All of them. */
export function addAll(server) {
  addDone(server);
  addWaiting(server);
  addFailed(server);
  addOutOfBudget(server);
  addInDoubt(server);
  const queued = server.add("waits-for-room", { team: "snake", began: Date.now() - 4000 });
  queued.changed({ state: "queued", status: "queued" });
  addRunning(server);
}
