"""Values that the host does not take: an exception in the author's call, with a host in memory as with the real one."""

import unittest

from strata_action import (
    Context, Hop, Image, Output, Task, action, clock, env, environment, files, http, human, llm, log, memory,
    planner, random, secrets, state, thinker,
)
from strata_action.testing import Host

HALF = "\ud83d"


def calls():
    """What authors get wrong, and what they are told."""
    count = "a whole number from 0 to 4294967295"
    return [
        (lambda: state.role.update({3: 1}), "state: key: expected a text, found the int `3`"),
        (lambda: state.scope(None)["k"], "state: scope: expected a text, found None"),
        (lambda: Output(5), "Output.content: expected a text, found the int `5`"),
        (lambda: Output("x", to="Bob"), "Output.to: expected a list, found the str `'Bob'`; write `['Bob']`"),
        (lambda: Output("x", route=[("A", ["B"])]), "Output.route[0]: expected a `Hop`, found the tuple"),
        (lambda: Hop("A", "B"), "Hop.to: expected a list, found the str `'B'`; write `['B']`"),
        (lambda: Task(None), "Task.text: expected a text, found None"),
        (lambda: environment.emit("x", to="Bob"),
         "environment.emit: to: expected a list, found the str `'Bob'`; write `['Bob']`"),
        (lambda: environment.emit(5), "environment.emit: content: expected a text, found the int `5`"),
        (lambda: human.ask(3), "human.ask: text: expected a text, found the int `3`"),
        (lambda: human.ask("?", choices="ab"),
         "human.ask: choices: expected a list, found the str `'ab'`; write `['ab']`"),
        (lambda: llm.ask("x", max_tokens="many"), f"llm.ask: request.max_tokens: expected {count}, found the str `'many'`"),
        (lambda: llm.ask("x", stop="."), "llm.ask: request.stop: expected a list, found the str `'.'`; write `['.']`"),
        (lambda: llm.ask(5), "llm.ask: request.prompt: expected a list, found the int `5`"),
        (lambda: llm.ask(["x", llm.user("y")]), "llm.ask: request.prompt[1]: expected a `Image` or `File`, found the ChatMessage"),
        (lambda: llm.ask([llm.ChatMessage("system", [Image("image/png", b"")])]),
         "llm.ask: request.prompt[0].parts[0]: expected a text, found the Image"),
        (lambda: llm.embed("x"), "llm.embed: texts: expected a list, found the str `'x'`; write `['x']`"),
        (lambda: Image("image/png"), "Image: expected exactly one of `data`, `url` and `digest`"),
        (lambda: Output("x", parts=["y"]), "Output.parts[0]: expected a `Image` or `File`, found the str `'y'`"),
        (lambda: llm.ask([llm.ChatMessage("me", ["x"])]),
         "llm.ask: request.prompt[0].speaker: expected 'system' or 'user' or 'assistant' or 'tool', found the str `'me'`"),
        (lambda: llm.ask_many(["x"]), "llm.ask_many: requests[0]: expected a `Request`, found the str `'x'`"),
        (lambda: http.get("https://a.example/", timeout=-1),
         f"http.request: request.timeout in milliseconds: expected {count}, found the int `-1000`"),
        (lambda: http.get("https://a.example/", headers={"x": 5}),
         "http.request: request.headers['x']: expected a text, found the int `5`"),
        (lambda: http.post("https://a.example/", body=3), "http.request: request.body: expected a text or bytes, found the int `3`"),
        (lambda: files.write("/out/a", 3), "files.write: content: expected a text or bytes, found the int `3`"),
        (lambda: files.read(3), "expected str, bytes or os.PathLike object, not int"),
        (lambda: memory.recent(-1), f"memory.recent: limit: expected {count}, found the int `-1`"),
        (lambda: random.bytes("3"), f"random.bytes: length: expected {count}, found the str `'3'`"),
        (lambda: clock.sleep(-1), f"clock.sleep: milliseconds: expected {count}, found the int `-1000`"),
        (lambda: env.get(None), "env.get: name: expected a text, found None"),
        (lambda: secrets.named(b"A"), "secrets.named: name: expected a text, found the bytes"),
        (lambda: action(needs="llm")(print), "needs: expected a list, found the str `'llm'`; write `['llm']`"),
    ]


class Border(unittest.TestCase):
    def test_what_the_host_does_not_take_is_a_type_error_that_can_be_caught(self):
        for call, told in calls():
            host = Host(replies=[], responses=[], answers=[], writable=["/out"])
            with self.assertRaises(TypeError) as raised:
                host.serve(call)
            self.assertEqual(str(raised.exception), told)

    def test_what_is_no_output_no_plan_and_no_choice_is_told(self):
        @action
        def later(cx: Context):
            output = Output("x")
            output.to = "Bob"
            return output

        with self.assertRaisesRegex(TypeError, "Output.to: expected a list"):
            Host().run(later)
        for planned, told in [("paint", r"expected a list, found the str `'paint'`"), ([5], r"\[0\]: expected a `Task`")]:
            with self.assertRaisesRegex(TypeError, f"what `<lambda>` returned.*{told}"):
                Host().plan(planner(lambda cx, planned=planned: planned))
        with self.assertRaisesRegex(TypeError, "what `<lambda>` returned: expected a whole number"):
            Host().choose(thinker(lambda situation: 2**31))

    def test_half_a_character_becomes_the_one_that_stands_for_what_is_none(self):
        host = Host(writable=["/out"])

        def use(cx):
            log.info(f"ab{HALF}")
            state.role[HALF] = {HALF: ["\ud83d\ude00"]}
            environment.emit(HALF, to=(HALF,))
            files.write("/out/a", HALF)
            return Output(HALF, data=HALF)

        output = host.run(action(use))
        self.assertEqual(host.log, [("info", "ab\ufffd")])
        self.assertEqual(host.state, {"\ufffd": {"\ufffd": ["\U0001f600"]}})
        self.assertEqual((host.emitted[0].content, host.emitted[0].to), ("\ufffd", ["\ufffd"]))
        self.assertEqual(host.files["/out/a"], "\ufffd".encode())
        self.assertEqual(output.content, "\ufffd")

    def test_lists_may_be_anything_that_lists(self):
        host = Host(answers=["a"])
        host.serve(lambda: human.ask("?", choices=(name for name in "ab")))
        self.assertEqual(host.questions[0].choices, ["a", "b"])
        self.assertEqual(Output("x", to={"A": 1}.keys()).to, ["A"])


if __name__ == "__main__":
    unittest.main()
