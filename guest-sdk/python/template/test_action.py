"""Tests of the action with a host in memory."""

import unittest

from strata_action.testing import Host

from action import Answer, respond


class Respond(unittest.TestCase):
    def test_it_answers_and_counts_its_words(self):
        host = Host(replies=["Blue and deep."])
        output = host.run(respond, news="the sea", config={"instruction": "Describe:"})
        self.assertEqual(output.content, "Blue and deep.")
        self.assertEqual(output.data, Answer(words=3))
        self.assertEqual(host.prompts, ["Describe:\n\nthe sea"])
