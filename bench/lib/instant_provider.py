"""A provider of a language model that answers at once, as a process of its own: it prints its port and serves until its
standard input is closed. A request with `"stream": true` gets a reply of 8 MiB in chunks, any other one a short reply."""

import asyncio
import json
import sys

STREAMED_BYTES = 8 << 20
PIECE = "word " * 400


def whole() -> bytes:
    reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m",
             "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "an answer"}}],
             "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}}
    body = json.dumps(reply).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def event(delta: dict, finish: str | None, usage: dict | None = None) -> bytes:
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m",
             "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if usage:
        chunk["usage"] = usage
    return b"data: %s\n\n" % json.dumps(chunk).encode()


WHOLE = whole()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(lengths[0]) if lengths else 0)
            if json.loads(body or b"{}").get("stream"):
                await stream(writer)
                return
            writer.write(WHOLE)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    writer.write(event({"role": "assistant", "content": ""}, None))
    piece = event({"content": PIECE}, None)
    for _ in range(STREAMED_BYTES // len(PIECE)):
        writer.write(piece)
        await writer.drain()
    usage = {"prompt_tokens": 10, "completion_tokens": 1000, "total_tokens": 1010}
    writer.write(event({}, "stop", usage) + b"data: [DONE]\n\n")
    await writer.drain()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
