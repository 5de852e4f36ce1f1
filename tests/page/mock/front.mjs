// Delivers the page from its sources in front of a real server, so that an edit of the page needs no build:
// `node tests/page/mock/front.mjs http://127.0.0.1:7464`.

import { createServer, request as send } from "node:http";
import { fileURLToPath } from "node:url";
import { pageFile } from "./page_files.mjs";
import { POLICY } from "./server.mjs";

export async function startFront(real, port = 0) {
  const target = new URL(real);
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, real);
    if (!pathname.startsWith("/v1") && pathname !== "/health") {
      const file = pageFile(pathname);
      response.writeHead(file ? 200 : 404, file ? { "content-type": file.type, "content-security-policy": POLICY } : {});
      response.end(file?.content);
      return;
    }
    const headers = { ...request.headers, host: target.host };
    if (headers.origin) headers.origin = target.origin;
    const passed = send({ host: target.hostname, port: target.port, path: request.url, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.on("error", () => response.destroy());
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startFront(process.argv[2] ?? "http://127.0.0.1:7464", 7466);
  console.log(`${url}/#token=… with the token of the server`);
}
