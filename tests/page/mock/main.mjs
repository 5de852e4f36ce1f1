// Runs the mock until it is stopped, to look at the page by hand: `node tests/page/mock/main.mjs [PORT]`.

import { MockServer } from "./server.mjs";
import { addAll, addLong } from "./runs.mjs";

const server = await new MockServer({ port: Number(process.argv[2] ?? 7465) }).start();
addAll(server);
addLong(server, 10_000);
console.log(`${server.url}/#token=owner-token`);
