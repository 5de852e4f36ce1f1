"""Clients of language models: `model_clients.py CLIENT calls|stream URL COUNT` asks a provider, one request after the
other, and prints the time of a call and the most memory that the process had before and after."""

import asyncio
import http.client
import json
import resource
import sys
import time
import urllib.parse


def bare(url: str):
    address = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(address.hostname, address.port)

    def ask() -> str:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "question"}]})
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        return json.load(connection.getresponse())["choices"][0]["message"]["content"]

    return ask, None


def openai(url: str):
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    messages = [{"role": "user", "content": "question"}]

    def ask() -> str:
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content

    def stream() -> int:
        chunks = client.chat.completions.create(model="m", messages=messages, stream=True)
        return len("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))

    return ask, stream


def langchain(url: str):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model="m", max_retries=0)

    def stream() -> int:
        return len("".join(chunk.content for chunk in model.stream("question")))

    return lambda: model.invoke("question").content, stream


def pydantic_ai(url: str):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none")))

    async def read() -> int:
        async with agent.run_stream("question") as reply:
            return len("".join([text async for text in reply.stream_text(delta=True)]))

    return lambda: agent.run_sync("question").output, lambda: asyncio.run(read())


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    client, what, url, count = sys.argv[1:]
    ask, stream = {"bare": bare, "openai": openai, "langchain": langchain, "pydantic-ai": pydantic_ai}[client](url)
    assert ask() == "an answer"
    before = peak_mib()
    if what == "stream":
        assert stream() > 8_000_000
        print(json.dumps({"before_mib": before, "peak_mib": peak_mib()}))
        return
    begun = time.perf_counter()
    for _ in range(int(count)):
        ask()
    print(json.dumps({"us": (time.perf_counter() - begun) / int(count) * 1e6}))


main()
