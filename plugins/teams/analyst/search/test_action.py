"""Tests of the action with a host in memory."""

import unittest

from strata_action import Failure
from strata_action.testing import Host

from action import search


class TestSearch(unittest.TestCase):
    def setUp(self):
        self.host = Host(files={"/files/a.csv": "Flour,1\nsugar,2\n", "/files/old/b.txt": "no flour\n"})

    def search(self, config=None, **arguments):
        return self.host.run(search, config=config or {}, arguments=arguments)

    def test_lines_are_returned_with_file_and_number(self):
        output = self.search(pattern="flour")
        self.assertEqual(output.content, "a.csv:1: Flour,1\nold/b.txt:1: no flour")
        self.assertFalse(output.data.more)

    def test_only_files_with_matching_names_are_searched(self):
        self.assertEqual(self.search(pattern=".", files="*.txt").content, "old/b.txt:1: no flour")

    def test_no_more_lines_than_the_limit_are_returned(self):
        output = self.search({"limit": 1}, pattern=".")
        self.assertEqual(len(output.data.lines), 1)
        self.assertTrue(output.data.more)

    def test_a_pattern_that_is_no_regular_expression_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "not a regular expression"):
            self.search(pattern="(")
