"""Tests of the action with a host in memory."""

import unittest

from strata_action import Failure, Message
from strata_action.testing import Host

from action import explain


def days(*temperatures):
    return Message("", data={"readings": [{"day": f"d{i}", "temperature": t, "wind": i} for i, t in enumerate(temperatures)]})


class Explain(unittest.TestCase):
    def test_a_day_unlike_its_neighbours_is_odd(self):
        host = Host()
        output = host.run(explain, news=days(10, 11, 12, 30, 13, 14, 15), config={})
        self.assertEqual(output.data.odd, ["d3"])
        self.assertEqual(output.data.notes[-1], "d4 to d6: the windiest days, 5 km/h")

    def test_without_enough_readings_it_fails(self):
        host = Host()
        with self.assertRaises(Failure):
            host.run(explain, news=days(1), config={})
