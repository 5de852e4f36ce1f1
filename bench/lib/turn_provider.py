"""A provider of a language model that answers at once and wants tools to be called, as a process of its own: it prints its
port and serves until its standard input is closed.

`/TURNS/v1/chat/completions` asks for one call of the tool `note` with 1,000 bytes of text in each of the first TURNS
replies, and answers then. How far the conversation is it learns from the newest call in the request, so it is the
same for a conversation that is continued, or whose beginning is left out. A request without tools is answered with a
summary. A line `kill K PID` on the standard input lets the K-th request from then on, counted from 1, kill the process
group PID before it is answered; `count` prints how many requests were answered since, and `bytes` how long the last
request was.
"""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lib.host import text  # noqa: E402

TEXTS = 1000
CALL = re.compile(rb'"call-(\d+)"')
"""The id of a call in a request. No text contains it, because quotation marks are escaped there."""
TOOLS = re.compile(rb'"tools":\s*\[')


def reply(message: dict, finish: str) -> bytes:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def call(number: int) -> bytes:
    function = {"name": "note", "arguments": json.dumps({"text": ARGUMENTS[number % TEXTS]})}
    return reply({"content": None, "tool_calls": [{"id": f"call-{number}", "type": "function", "function": function}]}, "tool_calls")


ARGUMENTS = [text(number) for number in range(TEXTS)]
ANSWER = reply({"content": "done"}, "stop")
SUMMARY = reply({"content": "Texts were noted, one after another, and more are to be noted."}, "stop")
answered, kill_at, group, last_bytes = 0, 0, 0, 0


def next_reply(request: bytes, turns: int) -> bytes:
    if not TOOLS.search(request):
        return SUMMARY
    ids = CALL.findall(request)
    number = int(ids[-1]) + 1 if ids else 0
    return call(number) if number < turns else ANSWER


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    global answered, kill_at, last_bytes
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            turns = int(head.split(b"/")[1])
            length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            request = await reader.readexactly(length)
            last_bytes = length
            if kill_at and answered + 1 >= kill_at:
                kill_at = 0
                os.killpg(group, signal.SIGKILL)
                return
            answered += 1
            writer.write(next_reply(request, turns))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def control(line: str) -> None:
    global answered, kill_at, group
    words = line.split()
    if words[0] == "kill":
        answered, kill_at, group = 0, int(words[1]), int(words[2])
    print(last_bytes if words[0] == "bytes" else answered, flush=True)


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=16 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        control(line)
    server.close()


asyncio.run(main())
