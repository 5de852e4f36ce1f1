"""Tests of the SDK in plain Python: conversion of types, calls of marked functions, and the host in memory."""

import collections
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import unittest
from dataclasses import dataclass, field
from typing import Annotated, Literal, NewType, TypedDict

from strata_action import (
    Candidate, Context, Denied, Expired, Failure, File, HostError, Image, Invalid, Message, NotFound, Output, Situation, Task, Upstream,
    action, clock, env, environment, exports, files, http, human, llm, log, mcp, memory, planner, random, secrets, state,
    thinker, typed,
)
from strata_action.message import recipients
from strata_action.testing import Emission, Host


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass
class Part:
    name: str
    size: float = 1.0


@dataclass
class Whole:
    parts: list[Part]
    mood: Mood = Mood.GOOD
    side: Literal["left", "right"] | None = None
    counts: dict[str, int] = field(default_factory=dict)


@action(needs=["llm"])
def count(cx: Context[Whole]) -> Output[Part]:
    """Counts."""
    return Output(f"{len(cx.config.parts)} {cx.text}", data=Part("all", len(cx.config.parts)))


@dataclass
class Node:
    children: "list[Node]"


class Types(unittest.TestCase):
    def test_the_text_of_a_response_is_decoded_as_it_says(self):
        cases = [
            (b"\xc3\xa9", None, "\u00e9"),
            (b"\xe9", "text/html; charset=ISO-8859-1", "\u00e9"),
            (b"\x83\x65", 'text/plain; charset="Shift_JIS"', "\u30c6"),
            (b"\xff\xfe\xe9\0", "text/plain; charset=utf-8", "\u00e9"),
            (b"\xef\xbb\xbfa", "text/plain", "a"),
            (b"\xc3\xa9", "text/plain; charset=unheard-of", "\u00e9"),
            (b"\xc3\xa9", "text/plain; charset=hex", "\u00e9"),
            (b"\xff", "text/plain", "\ufffd"),
            (b'<meta charset="koi8-r">\xc1', "text/html", '<meta charset="koi8-r">\u0430'),
            (b"<?xml version='1.0' encoding='latin1'?>\xe9", "text/xml", "<?xml version='1.0' encoding='latin1'?>\u00e9"),
            (b'<meta charset="koi8-r">\xc1', "text/plain", '<meta charset="koi8-r">\ufffd'),
        ]
        for body, content_type, expected in cases:
            headers = {} if content_type is None else {"content-type": content_type}
            self.assertEqual(http.Response(200, headers, body).text, expected, (body, content_type))

    def test_json_becomes_the_wanted_type(self):
        value = {"parts": [{"name": "a", "size": 2}], "mood": "bad", "side": "left", "counts": {"x": 1}}
        expected = Whole([Part("a", 2.0)], Mood.BAD, "left", {"x": 1})
        self.assertEqual(typed.decode(Whole, value, "it"), expected)
        self.assertEqual(typed.decode(Whole, {"parts": [], "more": 1}, "it"), Whole([]))
        self.assertEqual(typed.dumps(expected), typed.dumps(value).replace('"size":2', '"size":2.0'))

    def test_values_that_json_lacks_become_texts(self):
        cases = [
            ([1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63) - 1, {"n": 10**30}],
             '[9223372036854775808,18446744073709551615,"18446744073709551616","-9223372036854775809",{"n":"' + str(10**30) + '"}]'),
            ([str(10**30), 1e30, 0.12345678901234567890], f'["{10**30}",1e+30,0.12345678901234568]'),
            ([datetime.datetime(2024, 3, 5, 12), datetime.time(1, 2), datetime.timedelta(hours=3)],
             '["2024-03-05T12:00:00","01:02:00","3:00:00"]'),
            ([decimal.Decimal("1.10"), fractions.Fraction(1, 3), pathlib.PurePosixPath("/a")], '["1.10","1/3","/a"]'),
            ([range(2), {"a": 1}.values(), collections.deque([1])], "[[0,1],[1],[1]]"),
        ]
        for value, expected in cases:
            self.assertEqual(typed.dumps(value), expected)

    def test_lists_tuples_and_sets_are_distinguished(self):
        cases = [
            (list[int], [1, 2], [1, 2]),
            (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
            (tuple[int, str], [1, "x"], (1, "x")),
            (tuple, [1, "x"], (1, "x")),
            (set[str], ["a", "b", "a"], {"a", "b"}),
        ]
        for wanted, value, expected in cases:
            self.assertEqual(typed.decode(wanted, value, "it"), expected)

    def test_errors_name_the_part_that_does_not_match(self):
        cases = [
            (Whole, {}, "it: `parts` is missing"),
            (Whole, {"parts": {}}, "it.parts: expected a list, found object"),
            (Whole, {"parts": [{"name": 1}]}, "it.parts[0].name: expected string, found the integer `1`"),
            (Whole, {"parts": [], "mood": "odd"}, "it.mood: expected 'good' or 'bad', found the string `\"odd\"`"),
            (int, True, "it: expected integer, found the boolean `true`"),
            (tuple[int, str], [1, 2], "it[1]: expected string, found the integer `2`"),
            (tuple[int, str], [1, "x", 3], "it: expected a list of 2, found list"),
            (int | str, 1.5, "it: matches none of its types: it: expected integer"),
        ]
        for wanted, value, expected in cases:
            with self.assertRaises(ValueError) as raised:
                typed.decode(wanted, value, "it")
            self.assertTrue(str(raised.exception).startswith(expected), str(raised.exception))
        with self.assertRaisesRegex(ValueError, "it: unknown key `more`; known are name, size"):
            typed.decode(Part, {"name": "a", "more": 1}, "it", strict=True)

    def test_a_type_has_a_schema(self):
        part = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "size": {"type": "number", "default": 1.0}},
            "required": ["name"],
        }
        found = typed.schema(Whole)
        self.assertEqual(found["properties"]["parts"], {"type": "array", "items": part})
        self.assertEqual(found["properties"]["mood"], {"enum": ["good", "bad"], "default": "good"})
        self.assertEqual(found["properties"]["counts"]["default"], {})
        self.assertEqual(found["properties"]["side"], {"anyOf": [{"enum": ["left", "right"]}, {"type": "null"}], "default": None})
        self.assertEqual(found["required"], ["parts"])
        self.assertEqual(typed.schema(Part, strict=True)["additionalProperties"], False)
        pair = {"prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}
        self.assertEqual(typed.schema(tuple[int, str]), {"type": "array", **pair})
        self.assertEqual(typed.schema(set[str]), {"type": "array", "items": {"type": "string"}})

    def test_an_annotation_describes_a_value(self):
        Degrees = NewType("Degrees", float)

        class Place(TypedDict, total=False):
            north: Annotated[Degrees, "The latitude."]
            near: list[Annotated[str, "A town."]]

        found = typed.schema(Place, strict=True)
        self.assertEqual(found["properties"]["north"], {"description": "The latitude.", "type": "number"})
        self.assertEqual(found["properties"]["near"]["items"], {"description": "A town.", "type": "string"})
        self.assertEqual((found["required"], found["additionalProperties"]), ([], False))
        self.assertEqual(typed.decode(Place, {"north": 1}, "it", strict=True), {"north": 1.0})
        with self.assertRaisesRegex(ValueError, "it.north: expected number"):
            typed.decode(Place, {"north": "a"}, "it")

    def test_a_type_that_contains_itself_has_a_schema(self):
        properties = typed.schema(Node)["properties"]
        self.assertEqual(properties["children"], {"type": "array", "items": {"type": "object"}})
        self.assertEqual(typed.decode(Node, {"children": [{"children": []}]}, "it"), Node([Node([])]))

    def test_an_integer_may_be_written_with_a_fraction_of_zero(self):
        self.assertEqual(typed.decode(list[int], [1.0, 2], "it"), [1, 2])
        with self.assertRaisesRegex(ValueError, "expected integer"):
            typed.decode(int, 1.5, "it")


class Functions(unittest.TestCase):
    def test_config_and_data_are_typed(self):
        output = Host().run(count, news="parts", config={"parts": [{"name": "a"}]})
        self.assertEqual(output, Output("1 parts", data=Part("all", 1)))
        export = exports.of(count)
        self.assertEqual((export.config_type, export.data_type, export.needs), (Whole, Part, ["llm"]))
        with self.assertRaisesRegex(Failure, "config: `parts` is missing"):
            Host().run(count)

    def test_arguments_of_a_tool_call_are_typed(self):
        @action
        def measure(cx: Context, arguments: Part) -> str:
            return f"{arguments.name} {arguments.size}"

        @action
        def greet(cx: Context, arguments: dict[str, str] | None = None) -> str:
            return "called" if arguments else "run"

        export = exports.of(measure)
        self.assertEqual(export.input_schema, typed.dumps(typed.schema(Part, strict=True)))
        self.assertIsNone(exports.of(count).input_schema)
        self.assertEqual(Host().run(measure, arguments={"name": "a"}).content, "a 1.0")
        for arguments, message in [({"size": 1}, "arguments: `name` is missing"), (None, "not called as a tool")]:
            with self.assertRaisesRegex(Failure, message):
                Host().run(measure, arguments=arguments)
        self.assertEqual(Host().run(greet).content, "run")
        self.assertEqual(Host().run(greet, arguments={"a": "b"}).content, "called")

    def test_each_parameter_may_be_an_argument(self):
        @action
        def add(cx: Context, zeta: Annotated[int, "The first."], alpha: int = 2, *, part: Part | None = None) -> str:
            return f"{zeta + alpha}{part.name if part else ''}"

        @action
        def shout(cx: Context, word: str) -> str:
            return word.upper()

        schema = json.loads(exports.of(add).input_schema)
        self.assertEqual(list(schema["properties"]), ["zeta", "alpha", "part"])
        self.assertEqual(schema["properties"]["zeta"], {"description": "The first.", "type": "integer"})
        self.assertEqual(schema["properties"]["alpha"], {"type": "integer", "default": 2})
        self.assertEqual((schema["required"], schema["additionalProperties"]), (["zeta"], False))
        self.assertEqual(Host().run(add, arguments={"zeta": 1}).content, "3")
        self.assertEqual(Host().run(add, arguments={"zeta": 1, "part": {"name": "a"}, "alpha": 0}).content, "1a")
        self.assertEqual(Host().run(shout, arguments={"word": "a"}).content, "A")
        for arguments, message in [({"alpha": 1}, "arguments: `zeta` is missing"), (None, "not called as a tool"),
                                   ({"zeta": "1"}, "arguments.zeta: expected integer")]:
            with self.assertRaisesRegex(Failure, message):
                Host().run(add, arguments=arguments)

    def test_an_output_that_names_no_recipients_differs_from_one_for_nobody(self):
        for output, expected in [(Output("x"), []), (Output("x", to=[]), ["<nobody>"]), (Output("x", to=["A"]), ["A"])]:
            output.__post_init__()
            self.assertEqual(recipients(output.to), expected)

    def test_what_an_action_may_return(self):
        cases = [
            (lambda cx: "text", Output("text")),
            (lambda cx: Part("a"), Output('{"name":"a","size":1.0}', data=Part("a"))),
            (lambda cx: [1, 2], Output("[1,2]", data=[1, 2])),
            (lambda cx: map(str, [1, 2]), Output('["1","2"]', data=["1", "2"])),
            (lambda cx: 1 << 70, Output("1180591620717411303424", data=1 << 70)),
            (lambda cx: datetime.date(2024, 3, 5), Output("2024-03-05", data=datetime.date(2024, 3, 5))),
        ]
        for function, expected in cases:
            self.assertEqual(Host().run(action(function)), expected)
        with self.assertRaisesRegex(TypeError, "returned nothing"):
            Host().run(action(lambda cx: None))
        with self.assertRaisesRegex(TypeError, "cannot be represented in JSON"):
            Host().run(action(lambda cx: Output("x", data=object())))
        unfit = [
            ({"a": [1.0, float("nan")]}, r"value\.a\[1\]: the number `nan` cannot be represented in JSON"),
            ({"a": {(1, 2): 3}}, r"value\.a: the key `\(1, 2\)` of the type `tuple` is not a string"),
            (Part("a", size=b""), r"value\.size: a value of the type `bytes` cannot be represented in JSON"),
        ]
        for data, problem in unfit:
            with self.assertRaisesRegex(TypeError, problem):
                Host().run(action(lambda cx, data=data: data))
        self.assertEqual(Host().run(action(lambda cx: Output("x", data={1, "a"}))).data, {1, "a"})

    def test_thinkers_and_planners(self):
        @thinker
        def choose(situation: Situation):
            return situation.round if situation.round < len(situation.candidates) else None

        @planner
        def plan(cx: Context):
            return [cx.text, Task("paint", action="Paint")]

        self.assertEqual(Host().choose(choose, ["a", Candidate("b")], round=1), 1)
        self.assertEqual(Host().choose(choose, ["a"], round=1), -1)
        self.assertEqual(Host().plan(plan, news="a house"), [Task("a house"), Task("paint", "Paint")])

    def test_a_choice_is_an_integer_and_has_no_effects(self):
        for chosen in (1.7, True, "1"):
            with self.assertRaisesRegex(TypeError, "expected an integer"):
                Host().choose(thinker(lambda situation, chosen=chosen: chosen))
        for effect in (lambda: environment.emit("x"), lambda: state.role.update(a=1), lambda: files.write("/out/x", "")):
            with self.assertRaisesRegex(HostError, "a choice changes nothing"):
                Host().choose(thinker(lambda situation, effect=effect: effect()))

    def test_a_dictionary_as_config_may_be_left_out(self):
        def count(cx: Context[dict[str, int]]):
            return str(len(cx.config))

        self.assertEqual(Host().run(action(count)).content, "0")

    def test_coroutine_functions_and_unmarked_functions_are_rejected(self):
        async def later(cx):
            return "x"

        with self.assertRaisesRegex(TypeError, "must be a plain function"):
            action(later)
        with self.assertRaisesRegex(TypeError, "is not marked"):
            Host().run(later)

    def test_a_module_has_one_action(self):
        def top_level(name, module):
            function = eval("lambda cx: 'x'")
            function.__name__ = function.__qualname__ = name
            function.__module__ = module
            return function

        action(top_level("read", "one"))
        # A module is executed again, and it imports another one.
        action(top_level("read", "one"))
        action(top_level("write", "two"))
        planner(top_level("plan", "two"))
        with self.assertRaisesRegex(TypeError, "`write` and `erase` are both marked with `@action`: a module has one"):
            action(top_level("erase", "two"))

    def test_a_context_returns_its_newest_message(self):
        cx = Context(None, news=[Message("a\n"), Message("b", "Design", {"n": 1}, "Bob")])
        self.assertEqual((cx.text, cx.newest.content, cx.data(dict[str, int])), ("a\n\n\nb", "b", {"n": 1}))
        self.assertEqual(cx.briefing, "# UserRequirement\n\na\n\n# Design, by Bob\n\nb")
        self.assertIsNone(cx.labelled("Poem"))
        cx.role.profile, cx.role.goal = "Architect", "build."
        self.assertEqual(cx.persona, "You are Role, Architect. Your goal: build.")
        with self.assertRaisesRegex(ValueError, "reading the data of message `UserRequirement`: it has none"):
            Context(None, news=[Message("x")]).data(Part)


class Hosts(unittest.TestCase):
    def test_state_is_a_dictionary(self):
        def use():
            state.role["n"] = state.role.get("n", 0) + 1
            state.scope("log")["line"] = Part("a")
            del state.role["old"]
            return dict(state.role), "old" in state.role, sorted(state.scope("log"))

        host = Host(scopes={"log": {}, "role": {"n": 1, "old": None}})
        self.assertEqual(host.serve(use), ({"n": 2}, False, ["line"]))
        self.assertEqual(host.scopes["log"], {"line": {"name": "a", "size": 1.0}})
        with self.assertRaisesRegex(Exception, "the team declares no such scope"):
            host.serve(lambda: state.scope("absent")["x"])

    def test_models_reply(self):
        host = Host(replies=['{"name":"a"}', llm.Reply("x", data=[1]), Upstream("down"), "so:\n```py\n1\n```\n~~~\n2"])
        found = host.serve(lambda: llm.ask("part?", system="Be brief.", schema=Part).parse(Part))
        self.assertEqual(found, Part("a"))
        many = host.serve(lambda: llm.ask_many([llm.Request("a"), llm.Request("b")]))
        self.assertEqual((many[0].data, type(many[1])), ([1], Upstream))
        blocks = host.serve(lambda: llm.ask("code")).code_blocks
        self.assertEqual([(b.language, b.text, b.closed) for b in blocks], [("py", "1\n", True), ("", "2\n", False)])
        self.assertEqual(host.prompts, ["part?", "a", "b", "code"])
        listed = "1. so:\n   ```py\n   if x:\n     y\n z\n   ```\n"
        self.assertEqual([b.text for b in llm.Reply(listed).code_blocks], ["if x:\n  y\nz\n"])
        odd = "```\n'a\u2028\x0c\x85b'\r\n\n```\n"
        self.assertEqual([b.text for b in llm.Reply(odd).code_blocks], ["'a\u2028\x0c\x85b'\n\n"])
        self.assertEqual(host.requests[0].messages[0], llm.ChatMessage("system", ["Be brief."]))

    def test_a_conversation_is_continued_with_the_reply_as_it_was_received(self):
        look = llm.Tool("look", "Looks.", Part)
        call = llm.ToolCall("1", "look", '{"name":"box"}')
        parts = [llm.Opaque("p", "m", {"s": 1}), "I ", "look", call]
        host = Host(replies=[llm.Reply(parts=parts), llm.Reply("cut", finish="length")])

        def talk():
            messages = [llm.user("What is in it?", Image("image/png", b"png"))]
            reply = llm.ask(messages, tools=[look], tool_choice="required", effort="low")
            self.assertEqual((reply.text, reply.finish, reply.tool_calls), ("I look", "tool-calls", [call]))
            self.assertEqual(call.parse(Part), Part("box"))
            messages += [reply.message, llm.results(call.result({"found": 2}), call.result("none", is_error=True))]
            return llm.ask(messages).finish

        self.assertEqual(host.serve(talk), "length")
        asked, answered = host.requests
        self.assertEqual((asked.tool_choice, asked.effort), ("required", "low"))
        self.assertEqual(answered.messages[1], llm.ChatMessage("assistant", parts))
        found = answered.messages[2].parts
        self.assertEqual([(one.call, one.content, one.is_error) for one in found], [("1", ['{"found":2}'], False), ("1", ["none"], True)])
        with self.assertRaises(ValueError):
            llm.ToolCall("1", "look", "box?").parse(Part)

    def test_a_tool_of_a_server_is_called_if_it_is_granted(self):
        found = mcp.Result("two", {"count": 2}, ({"type": "text", "text": "two"},), True)
        host = Host(mcp={"notes/list": lambda of: f"notes of {of}", "notes/count": lambda: found})

        def calls():
            return mcp.call("notes", "list", {"of": "today"}).text, mcp.call("notes", "count")

        self.assertEqual(host.serve(calls), ("notes of today", found))
        self.assertEqual(host.mcp_calls, [("notes", "list", {"of": "today"}), ("notes", "count", {})])
        with self.assertRaises(Denied):
            host.serve(lambda: mcp.call("notes", "delete"))

    def test_texts_images_and_files_make_one_message(self):
        host = Host(replies=["a plan"], blobs={"d1": b"png"}, embeddings=[[[0.5, 1.0]]])
        plan = Image("image/png", digest="d1", size=3)
        self.assertEqual(host.serve(lambda: llm.ask(["what?", plan])).text, "a plan")
        self.assertEqual(host.requests[0].messages, [llm.user("what?", plan)])
        self.assertEqual(host.serve(plan.load), b"png")
        self.assertEqual(host.serve(File("text/csv", b"1,2").load), b"1,2")
        with self.assertRaises(NotFound):
            host.serve(Image("image/png", digest="d2").load)
        with self.assertRaises(Invalid):
            host.serve(Image("image/png", url="https://a.example/x.png").load)
        self.assertEqual(host.serve(lambda: llm.embed(["a"])).vectors, [[0.5, 1.0]])

    def test_a_structured_reply_is_read_from_data_block_or_text(self):
        for text, data, expected in [
            ("[1]", None, [1]), ("Here:\n```json\n[2]\n```", None, [2]), ("[1]", [3], [3]), ("```\n[1]\n```", [3], [3]),
        ]:
            self.assertEqual(llm.Reply(text, data=data).parse(list[int]), expected, text)
        with self.assertRaises(ValueError):
            llm.Reply("none").parse(list[int])

    def test_http_requests_get_responses(self):
        host = Host(responses=['{"id":7}', http.Response(404)], secrets=["TOKEN"])

        def order():
            token = secrets.named("TOKEN")
            return http.post("https://a.example/orders", json=["tea"], bearer=token, idempotency_key="k").json()

        self.assertEqual(host.serve(order), {"id": 7})
        sent = host.fetched[0]
        self.assertEqual((sent.body, sent.idempotency_key), (b'["tea"]', "k"))
        self.assertEqual(sent.headers["authorization"], "Bearer {{secret:TOKEN}}")
        self.assertEqual([secret.name for secret in sent.secrets], ["TOKEN"])
        self.assertFalse(host.serve(lambda: http.get("https://a.example/")).ok)
        plain = http.Request("POST", "https://a.example/", {"Content-Type": "application/x"}, json=1).plain()
        self.assertEqual(plain.headers, {"Content-Type": "application/x"})
        with self.assertRaisesRegex(HostError, "both `body` and `json`"):
            http.Request("POST", "https://a.example/", body="x", json=1).plain()

    def test_files_are_in_granted_directories_only(self):
        host = Host(files={"/in/a": "text", "/in/b/c": b"\xff"}, writable=["/out"])
        self.assertEqual(host.serve(lambda: (files.read_text("/in/a"), files.list("/in"))), ("text", ["a", "b/"]))
        host.serve(lambda: files.write("/out/x", "new"))
        self.assertEqual(host.files["/out/x"], b"new")
        cases = [
            (lambda: files.read("/in/none"), NotFound),
            (lambda: files.read("/etc/passwd"), Denied),
            (lambda: files.write("/in/a", "x"), Denied),
            (lambda: files.write("/out/../in/a", "x"), Denied),
            (lambda: files.list("/etc"), Denied),
        ]
        for call, error in cases:
            with self.assertRaises(error):
                host.serve(call)

    def test_questions_get_answers(self):
        host = Host(answers=[{"name": "a"}])
        answer = host.serve(lambda: human.ask("which?", schema=Part, expires=60))
        self.assertEqual(answer.parse(Part), Part("a"))
        self.assertEqual((host.questions[0].text, host.questions[0].expires), ("which?", 60))
        with self.assertRaisesRegex(AssertionError, "no answers left"):
            host.serve(lambda: human.ask("again?"))
        late = Host(answers=[Expired("too late"), Expired("too late")])
        self.assertEqual(late.serve(lambda: human.ask("now?", default=3, expires=0.5)), human.Answer(3, True))
        self.assertEqual(late.questions[0].expires, 1)
        with self.assertRaises(Expired):
            late.serve(lambda: human.ask("now?", expires=1))

    def test_functions_that_are_not_granted_are_denied(self):
        calls = [
            lambda: llm.ask("x"), lambda: http.get("https://a.example/"), lambda: env.get("HOME"),
            lambda: secrets.named("TOKEN"),
        ]
        for call in calls:
            with self.assertRaises(Denied):
                Host().serve(call)

    def test_time_randomness_and_the_rest(self):
        host = Host(unix_time=86400, env={"LANG": "de"}, memory=[Message("a", "A"), Message("b", "B")], seed=1)

        def use():
            clock.sleep(1.5)
            log.warn("slow")
            environment.emit("more", data=Part("x"), to=["B"])
            drawn = random.generator().random()
            return clock.now().isoformat(), env.get("LANG"), [m.content for m in memory.by_label("B", 9) + memory.recent(9, max_bytes=1)], drawn

        first = host.serve(use)
        self.assertEqual(first[:3], ("1970-01-02T00:00:01.500000+00:00", "de", ["b", "b"]))
        self.assertEqual((host.slept, host.log), (1.5, [("warn", "slow")]))
        self.assertEqual(host.emitted, [Emission("more", {"name": "x", "size": 1.0}, ["B"])])
        again = Host(unix_time=86400, env={"LANG": "de"}, memory=host.memory, seed=1)
        self.assertEqual(again.serve(use), first)

    def test_records_of_the_module_logging_are_written_to_the_log(self):
        import logging

        self.addCleanup(logging.root.setLevel, logging.root.level)
        self.addCleanup(logging.root.handlers.clear)
        log.forward()
        host = Host()

        def use():
            logger = logging.getLogger("author")
            logger.debug("fine"), logger.info("so %s", "far"), logger.error("bad")

        host.serve(use)
        self.assertEqual(host.log, [("info", "so far"), ("error", "bad")])

    def test_without_a_host_calls_fail(self):
        with self.assertRaisesRegex(RuntimeError, "there is no host here"):
            llm.ask("x")


if __name__ == "__main__":
    unittest.main()
