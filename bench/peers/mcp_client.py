"""A client of the Model Context Protocol: `mcp_client.py COUNT PROGRAM ARGUMENT…` calls a tool of the server that this
command is, one call after the other, with the protocol's own SDK, and prints the time of a call."""

import asyncio
import json
import sys
import time

from mcp import Client, StdioServerParameters


async def main() -> None:
    count, program, *arguments = sys.argv[1:]
    server = StdioServerParameters(command=program, args=arguments)
    async with Client(server, mode="2026-07-28") as client:
        await client.list_tools()
        begun = time.perf_counter()
        for _ in range(int(count)):
            result = await client.call_tool("read", {"text": "question"})
            assert result.content[0].text == "an answer"
        print(json.dumps({"us": (time.perf_counter() - begun) / int(count) * 1e6}))


asyncio.run(main())
