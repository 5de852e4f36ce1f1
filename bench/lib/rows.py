"""The rows of the table. The programs are measured in turns, so that disturbances affect all of them equally."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from .host import DONE, ROLES, Host
from .measure import Failed, figures, median, run
from .peers import HERE as CLIENTS
from .peers import Peer
from .provider import CALLS, PRICE_USD, Provider
from .table import Row, beside, ratio, time


class Bench:
    """The programs to measure, and the settings."""

    def __init__(self, host: Host, peers: list[Peer], directory: Path, quick: bool, say, mcp_python: Path | None):
        self.host, self.peers, self.quick, self.say, self.mcp_python = host, peers, quick, say, mcp_python
        self.directory, self.used = directory, 0
        self.rounds = 1 if quick else 3

    def few(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def place(self) -> Path:
        """Return a new directory for one program."""
        self.used += 1
        place = self.directory / str(self.used)
        place.mkdir(parents=True)
        return place

    def each_peer(self, row: Row, measure, ours_us: float | None = None, only=lambda peer: True) -> None:
        """Add the results of the peers to a row, or the reasons why there are none."""
        for peer in filter(only, self.peers):
            row.peers[peer.name] = self.of_peer(peer, lambda peer=peer: measure(peer), ours_us)

    def of_peer(self, peer: Peer, measure, ours_us: float | None) -> str:
        if peer.why_not:
            return "–"
        try:
            found = measure()
        except Failed as error:
            self.say(f"{peer.name}: {error}")
            return f"failed: {error}"
        return found if isinstance(found, str) else beside(found, ours_us)


def in_turns(bench: Bench, ours, theirs: dict) -> tuple[list, dict]:
    """Measure strata-host and the peers in several rounds. A peer that fails is not measured again."""
    mine, others = [], {name: [] for name in theirs}
    for _ in range(bench.rounds):
        mine.append(ours())
        for name, measure in theirs.items():
            if isinstance(others[name], list):
                try:
                    others[name].append(measure())
                except Failed as error:
                    bench.say(f"{name}: {error}")
                    others[name] = f"failed: {error}"
    return mine, others


def runnable(bench: Bench, only=lambda peer: True) -> list[Peer]:
    return [peer for peer in bench.peers if not peer.why_not and only(peer)]


def cells(found: dict, ours_us: float) -> dict[str, str]:
    return {name: us if isinstance(us, str) else beside(median(us), ours_us) for name, us in found.items()}


def durable_step(bench: Bench) -> Row:
    steps, theirs = bench.few(1500, 200), bench.few(300, 100)
    peers = runnable(bench, lambda peer: peer.durability != "process")
    mine, others = in_turns(
        bench, lambda: bench.host.table("full", bench.place(), steps),
        {peer.name: lambda peer=peer: peer.figures("chain", bench.place(), theirs, "full", 30)["step_us"] for peer in peers},
    )
    ours, bare = median([m["step_us"] for m in mine]), median([m["bare_us"] for m in mine])
    over = median([m["step_us"] / m["bare_us"] for m in mine])
    growing = median([m["bare_growing_us"] for m in mine])
    return Row("durable step in a chain (survives power loss)", f"{time(ours)}, {ratio(over)} bare", "≤ 1.4× bare",
               over <= 1.4, f"fdatasync {time(bare)}; of a file that grows {time(growing)}", cells(others, ours))


def process_step(bench: Bench) -> Row:
    steps, theirs = bench.few(5000, 1000), bench.few(300, 100)
    peers = runnable(bench, lambda peer: peer.durability != "full")
    mine, others = in_turns(
        bench, lambda: bench.host.table("process", bench.place(), steps),
        {peer.name: lambda peer=peer: peer.figures("chain", bench.place(), theirs, "process", 30)["step_us"]
         for peer in peers},
    )
    ours, bare = median([m["step_us"] for m in mine]), median([m["bare_us"] for m in mine])
    return Row("the same, survives `kill -9`", f"{time(ours)}, {ratio(ours / bare)} bare", "≤ 30 µs", ours <= 30,
               f"write {time(bare)}", cells(others, ours))


def growth(bench: Bench) -> list[Row]:
    steps, seconds = bench.few(100_000, 10_000), bench.few(12, 4)
    found = bench.host.table("growth", bench.place(), steps)
    over = found["late_us"] / found["early_us"]
    row = Row(f"step {steps:,} compared with step 100", f"{ratio(over)} ({time(found['early_us'])} → {time(found['late_us'])})",
              "≤ 1.2×", over <= 1.2)

    def theirs(peer: Peer) -> str:
        durability = "full" if peer.durability == "full" else "process"
        peer_found = peer.figures("chain", bench.place(), steps, durability, seconds)
        return f"{ratio(peer_found['late_us'] / peer_found['early_us'])} at step {peer_found['steps']:,}"

    bench.each_peer(row, theirs)
    weight = found["bytes"] / found["message_bytes"]
    of_content = found["bytes"] / found["content_bytes"]
    bytes_row = Row(f"bytes on disk for {steps:,} messages, relative to the messages", f"{ratio(weight)} ({ratio(of_content)} their text)",
                    "≤ 1.4×", weight <= 1.4)
    mean = found["mean_last_tenth_us"] / found["mean_first_tenth_us"]
    mean_row = Row("mean step in the last tenth of the run compared with the first, snapshots included",
                   f"{ratio(mean)} ({time(found['mean_first_tenth_us'])} → {time(found['mean_last_tenth_us'])}; "
                   f"longest {found['longest_ms']:.0f} ms)")
    return [row, mean_row, bytes_row]


def wide(bench: Bench) -> Row:
    rounds = bench.few(10, 4)
    mine, others = in_turns(
        bench, lambda: bench.host.table("wide", bench.place(), 64, rounds * 3)["round_us"],
        {peer.name: lambda peer=peer: peer.figures("wide", bench.place(), 64, rounds)["round_us"]
         for peer in runnable(bench)},
    )
    ours = median(mine)
    return Row("64 actions and a join", time(ours), "≤ 1.4 ms", ours <= 1400, "", cells(others, ours))


def resume(bench: Bench, messages: int, only=lambda peer: True) -> Row:
    host, storage = bench.host, bench.place()
    host.run(host.team(storage, "process", ROLES), storage / "store", messages - 1)
    ready, failed = {}, {}
    for peer in runnable(bench, only):
        ready[peer.name] = (peer, bench.place())
        try:
            peer.run("prepare", ready[peer.name][1], messages, timeout_s=180)
        except Failed as error:
            failed[peer.name] = f"failed: {error}"
            del ready[peer.name]
    done = [messages - 1]

    def ours() -> float:
        done[0] += 1
        return host.resume(storage / "store", done[0], DONE).seconds * 1e6

    def theirs(peer: Peer, place: Path) -> float:
        # A run that has ended cannot be resumed again, so each round uses a copy.
        copy = bench.place()
        shutil.copytree(place, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
        return peer.run("resume", copy, until="durable").seconds * 1e6

    mine, others = in_turns(bench, ours, {name: lambda at=at: theirs(*at) for name, at in ready.items()})
    us, bar = median(mine), 12 if messages <= 10_000 else 40
    row = Row(f"resume with {messages:,} messages, from exec to the next durable action", time(us),
              f"≤ {bar} ms", us <= bar * 1000, "", cells(others, us))
    row.peers.update(failed)
    return row


def cold(bench: Bench) -> Row:
    host, count = bench.host, bench.few(5, 2)
    team = host.team(bench.place())
    host.run(team, bench.place() / "store", 1)
    mine, bare = [], []

    def ours() -> float:
        for _ in range(count):
            bare.append(run([host.program, "--version"]).seconds * 1e6)
            mine.append(host.run(team, bench.place() / "store", 1, DONE).seconds * 1e6)
        return median(mine)

    _, others = in_turns(bench, ours, {
        peer.name: lambda peer=peer: peer.run("cold", bench.place(), until="durable").seconds * 1e6
        for peer in runnable(bench)
    })
    us, nothing = median(mine), median(bare)
    return Row("cold start, from exec to the first durable action", f"{time(us)}, {ratio(us / nothing)} bare", "≤ 5.5 ms",
               us <= 5500, f"`--version` {time(nothing)}", cells(others, us))


def call(bench: Bench) -> Row:
    found = [bench.host.table("call", bench.place()) for _ in range(bench.rounds)]
    ours, raw = median([f["call_us"] for f in found]), median([f["bare_us"] for f in found])
    return Row("fresh sandbox and call", f"{time(ours)}, {ratio(ours / raw)} bare", "≤ 12 µs", ours <= 12,
               f"raw wasmtime {time(raw)}")


def calls(bench: Bench) -> list[Row]:
    found = [bench.host.table("calls", bench.place(), bench.few(2000, 200)) for _ in range(bench.rounds)]
    at = lambda name: median([f[f"{name}_us"] for f in found])  # noqa: E731
    scripted, model, http = at("scripted"), at("model"), at("http")
    over = median([f["model_us"] - f["bare_model_us"] for f in found])
    return [
        Row("a call of a model beyond its step, survives `kill -9`: its reply is in a file", time(scripted), "≤ 35 µs", scripted <= 35),
        Row("the same over HTTP on loopback", f"{time(model)}; {time(over)} beyond the exchange", "≤ 35 µs beyond", over <= 35,
            f"reqwest, one thread {time(at('bare_model'))}"),
        Row("an HTTP call on loopback, survives `kill -9`", f"{time(http)}, {ratio(http / at('bare_http'))} bare", "≤ 110 µs", http <= 110,
            f"reqwest, one thread {time(at('bare_http'))}"),
    ]


def mcp(bench: Bench) -> list[Row]:
    """Calls of an MCP server, next to the exchange alone, to a durable step, and to the client of the protocol's SDK."""
    count, found, sdk = bench.few(1000, 100), [], []
    for _ in range(bench.rounds):
        found.append(bench.host.table("mcp", bench.place(), count))
        if bench.mcp_python:
            client = [bench.mcp_python, "-I", "-B", CLIENTS / "mcp_client.py", count, bench.host.bench, "mcp-server"]
            sdk.append(figures(client)["us"])
    at = lambda name: median([f[f"{name}_us"] for f in found])  # noqa: E731
    read, write, bare, step = at("read"), at("write"), at("bare"), at("step")
    over = median([f["read_us"] / (f["bare_us"] + f["step_us"]) for f in found])
    beside_it = f"the exchange {time(bare)}; a durable step {time(step)}"
    if sdk:
        beside_it += f"; the Python SDK's client, which keeps nothing, {beside(median(sdk), read)}"
    return [
        Row("a call of an MCP server over stdio that reads, recorded and synced before the action goes on",
            f"{time(read)}, {ratio(over)} the exchange and a durable step", "≤ 1.3×", over <= 1.3, beside_it),
        Row("the same of one that writes: its intent is synced before it is sent, too", time(write)),
    ]


@dataclass
class Language:
    """A language of actions, with an action and a script that return the length of their text."""

    name: str
    lang: str
    file: str
    action: str
    script: str
    goal_us: float


LANGUAGES = [
    Language("JavaScript", "js", "src/action.js", 'import { action } from "@strata/action";\nexport default action({ run: (cx) => `${cx.text.length}` });\n',
             "return `${cx.text.length}`;\n", 250),
    Language("Python", "python", "action.py", "from strata_action import action\n\n\n@action\ndef run(cx):\n    return str(len(cx.text))\n",
             "return str(len(cx.text))\n", 1100),
]


def languages(bench: Bench) -> list[Row]:
    """Steps of actions and scripts in JavaScript and Python, and the cold start of an action in Python."""
    host, rows, teams = bench.host, [], {}

    def step_us(team: Path) -> float:
        steps, seconds = bench.few(500, 50), lambda steps: host.run(team, bench.place() / "store", steps).seconds
        seconds(1)  # Compiles the component, if that was not done before.
        return median([(seconds(1 + steps) - seconds(1)) / steps * 1e6 for _ in range(bench.rounds)])

    for language in LANGUAGES:
        place = bench.place()
        component = host.build(language.lang, place / "length", language.file, language.action)
        teams[language.name] = host.team(place, "process", action=f'component = "{component}"')
        us = step_us(teams[language.name])
        script = place / f"script{Path(language.file).suffix}"
        script.write_text(language.script)
        script_us = step_us(host.team(place / "script", "process", action=f'script = "{script}"'))
        rows.append(Row(f"a step of an action in {language.name}, survives `kill -9`; of a script", f"{time(us)}; {time(script_us)}",
                        f"≤ {time(language.goal_us)}", us <= language.goal_us))
    cold = median([host.run(teams["Python"], bench.place() / "store", 1, DONE).seconds * 1e6 for _ in range(3 * bench.rounds)])
    rows.append(Row("cold start of an action in Python", time(cold), "≤ 14 ms", cold <= 14_000))
    return rows


def memory(bench: Bench) -> Row:
    host, messages, place = bench.host, 10_000, bench.place()
    ours = host.run(host.team(place, roles=ROLES), place / "store", messages).peak_mib
    row = Row("peak memory of a run with 10,000 messages", f"{ours:.0f} MiB", "≤ 40 MiB", ours <= 40)

    def theirs(peer: Peer) -> str:
        at = bench.place()
        peer.run("prepare", at, messages, timeout_s=180)
        ended = peer.run("resume", at, until="durable")
        told = [line for line in ended.lines if line.startswith("peak_mib ")]
        return f"{float(told[0].split()[1]) if told else ended.peak_mib:.0f} MiB"

    bench.each_peer(row, theirs)
    return row


def many(bench: Bench) -> list[Row]:
    found = [bench.host.table("teams", bench.place(), 32, bench.few(1000, 30)) for _ in range(bench.rounds)]
    rate = lambda name: median([f[f"{name}_per_s"] for f in found])  # noqa: E731
    over = lambda many, one: median([f[f"{many}_per_s"] / f[f"{one}_per_s"] for f in found])  # noqa: E731
    teams = Row("durable steps per second of 32 teams in one process and one database file, compared with one team",
                f"{ratio(over('many', 'one'))} ({rate('one'):.0f}/s → {rate('many'):.0f}/s); "
                f"each with its own directory {ratio(over('apart', 'one'))}", "≥ 5×", over("many", "one") >= 5,
                f"32 threads of fdatasync {ratio(over('bare_many', 'bare_one'))}")
    ring = bench.host.table("ring", bench.place(), 1000, bench.few(100_000, 5000))
    crowd = bench.host.table("crowd", bench.place(), 1000, bench.few(100, 20))
    return [teams, *(flat(name, found) for name, found in
                     (("1,000 roles, one active at a time", ring), ("1,000 roles, all active in every step", crowd)))]


def flat(name: str, found: dict) -> Row:
    over = found["late_us"] / found["early_us"]
    return Row(f"{name}, {found['messages']:,} messages: a late action compared with an early one",
               f"{ratio(over)} ({time(found['early_us'])} → {time(found['late_us'])}), {found['peak_mib']:.0f} MiB",
               "≤ 1.2×", over <= 1.2)


def paid(bench: Bench) -> list[Row]:
    provider, host = Provider(), bench.host

    def ours(shape: str, k: int) -> int:
        place = bench.place()
        team, store = host.calls_team(place, provider.url, shape), place / "store"
        start = [host.program, "run", team, "--storage", store, "--quiet"]
        return provider.paid_again((start, {}), ([host.program, "run", "--recover_path", store, "--quiet"], {}), place, k)

    def theirs(peer: Peer, shape: str, k: int) -> int:
        place = bench.place()
        job = lambda phase: ([*peer.command, "calls", place, provider.url, shape, phase], peer.env)
        return provider.paid_again(job("start"), job("resume"), place, k)

    rows = []
    for shape, where in (("one", "all calls in one action"), ("each", "each call in its own action")):
        again = [ours(shape, k) for k in range(1, CALLS + 1)]
        row = Row(f"paid twice after `kill -9` at call k of {CALLS}, {where}", dollars(again), "$0", sum(again) == 0)
        bench.each_peer(row, lambda peer: dollars([theirs(peer, shape, k) for k in range(1, CALLS + 1)]))
        rows.append(row)
    return rows


def dollars(again: list[int]) -> str:
    """Return the cost of repeated calls over all k, and their number for each k."""
    return f"${sum(again) * PRICE_USD:.2f} ({' '.join(str(calls) for calls in again)})"
