"""Values of wrong types raise an exception in the author's call, with the host in memory as with the real one."""

import unittest

from strata_action import (
    Context, Hop, Image, Output, Task, action, clock, env, environment, files, http, human, llm, log, memory,
    planner, random, secrets, state, thinker,
)
from strata_action.testing import Host

SURROGATE = "\ud83d"


def calls():
    """Return wrong calls and the messages of their exceptions."""
    count = "an integer from 0 to 4294967295"
    return [
        (lambda: state.role.update({3: 1}), "state: key: expected a string, found the int `3`"),
        (lambda: state.scope(None)["k"], "state: scope: expected a string, found None"),
        (lambda: Output(5), "Output.content: expected a string, found the int `5`"),
        (lambda: Output("x", to="Bob"), "Output.to: expected a list, found the str `'Bob'`; write `['Bob']`"),
        (lambda: Output("x", route=[("A", ["B"])]), "Output.route[0]: expected a `Hop`, found the tuple"),
        (lambda: Hop("A", "B"), "Hop.to: expected a list, found the str `'B'`; write `['B']`"),
        (lambda: Task(None), "Task.text: expected a string, found None"),
        (lambda: environment.emit("x", to="Bob"),
         "environment.emit: to: expected a list, found the str `'Bob'`; write `['Bob']`"),
        (lambda: environment.emit(5), "environment.emit: content: expected a string, found the int `5`"),
        (lambda: human.ask(3), "human.ask: text: expected a string, found the int `3`"),
        (lambda: human.ask("?", choices="ab"),
         "human.ask: choices: expected a list, found the str `'ab'`; write `['ab']`"),
        (lambda: llm.ask("x", max_tokens="many"), f"llm.ask: request.max_tokens: expected {count}, found the str `'many'`"),
        (lambda: llm.ask("x", stop="."), "llm.ask: request.stop: expected a list, found the str `'.'`; write `['.']`"),
        (lambda: llm.ask(5), "llm.ask: request.prompt: expected a list, found the int `5`"),
        (lambda: llm.ask(["x", llm.user("y")]), "llm.ask: request.prompt[1]: expected a `Image` or `File`, found the ChatMessage"),
        (lambda: llm.ask([llm.ChatMessage("system", [Image("image/png", b"")])]),
         "llm.ask: request.prompt[0].parts[0]: expected a string, found the Image"),
        (lambda: llm.embed("x"), "llm.embed: texts: expected a list, found the str `'x'`; write `['x']`"),
        (lambda: Image("image/png"), "Image: expected exactly one of `data`, `url` and `digest`"),
        (lambda: Output("x", parts=["y"]), "Output.parts[0]: expected a `Image` or `File`, found the str `'y'`"),
        (lambda: llm.ask([llm.ChatMessage("me", ["x"])]),
         "llm.ask: request.prompt[0].speaker: expected 'system' or 'user' or 'assistant' or 'tool', found the str `'me'`"),
        (lambda: llm.ask_many(["x"]), "llm.ask_many: requests[0]: expected a `Request`, found the str `'x'`"),
        (lambda: http.get("https://a.example/", timeout=-1),
         f"http.request: request.timeout in milliseconds: expected {count}, found the int `-1000`"),
        (lambda: http.get("https://a.example/", headers={"x": 5}),
         "http.request: request.headers['x']: expected a string, found the int `5`"),
        (lambda: http.post("https://a.example/", body=3), "http.request: request.body: expected a string or bytes, found the int `3`"),
        (lambda: files.write("/out/a", 3), "files.write: content: expected a string or bytes, found the int `3`"),
        (lambda: files.read(3), "expected str, bytes or os.PathLike object, not int"),
        (lambda: memory.recent(-1), f"memory.recent: limit: expected {count}, found the int `-1`"),
        (lambda: random.bytes("3"), f"random.bytes: length: expected {count}, found the str `'3'`"),
        (lambda: clock.sleep(-1), f"clock.sleep: milliseconds: expected {count}, found the int `-1000`"),
        (lambda: env.get(None), "env.get: name: expected a string, found None"),
        (lambda: secrets.named(b"A"), "secrets.named: name: expected a string, found the bytes"),
        (lambda: action(needs="llm")(print), "needs: expected a list, found the str `'llm'`; write `['llm']`"),
    ]


class Validation(unittest.TestCase):
    def test_a_value_of_a_wrong_type_raises_a_type_error(self):
        for call, message in calls():
            host = Host(replies=[], responses=[], answers=[], writable=["/out"])
            with self.assertRaises(TypeError) as raised:
                host.serve(call)
            self.assertEqual(str(raised.exception), message)

    def test_invalid_outputs_plans_and_choices_are_reported(self):
        @action
        def later(cx: Context):
            output = Output("x")
            output.to = "Bob"
            return output

        with self.assertRaisesRegex(TypeError, "Output.to: expected a list"):
            Host().run(later)
        for planned, message in [("paint", r"expected a list, found the str `'paint'`"), ([5], r"\[0\]: expected a `Task`")]:
            with self.assertRaisesRegex(TypeError, f"what `<lambda>` returned.*{message}"):
                Host().plan(planner(lambda cx, planned=planned: planned))
        with self.assertRaisesRegex(TypeError, "what `<lambda>` returned: expected an integer"):
            Host().choose(thinker(lambda situation: 2**31))

    def test_an_unpaired_surrogate_is_replaced(self):
        host = Host(writable=["/out"])

        def use(cx):
            log.info(f"ab{SURROGATE}")
            state.role[SURROGATE] = {SURROGATE: ["\ud83d\ude00"]}
            environment.emit(SURROGATE, to=(SURROGATE,))
            files.write("/out/a", SURROGATE)
            return Output(SURROGATE, data=SURROGATE)

        output = host.run(action(use))
        self.assertEqual(host.log, [("info", "ab\ufffd")])
        self.assertEqual(host.state, {"\ufffd": {"\ufffd": ["\U0001f600"]}})
        self.assertEqual((host.emitted[0].content, host.emitted[0].to), ("\ufffd", ["\ufffd"]))
        self.assertEqual(host.files["/out/a"], "\ufffd".encode())
        self.assertEqual(output.content, "\ufffd")

    def test_any_iterable_may_be_passed_as_a_list(self):
        host = Host(answers=["a"])
        host.serve(lambda: human.ask("?", choices=(name for name in "ab")))
        self.assertEqual(host.questions[0].choices, ["a", "b"])
        self.assertEqual(Output("x", to={"A": 1}.keys()).to, ["A"])


if __name__ == "__main__":
    unittest.main()
