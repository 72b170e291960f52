# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The type stubs name what the package has, and every public thing has a docstring."""
import ast
import os
import unittest

import hmreg

STUBS = os.path.join(os.path.dirname(hmreg.__file__), "__init__.pyi")
TYPES = hmreg.Library, hmreg.Domain, hmreg.Region, hmreg.Remote


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


class Stubs(unittest.TestCase):
    def setUp(self):
        with open(STUBS, encoding="utf-8") as file:
            self.module = ast.parse(file.read())
        self.classes = {each.name: each for each in self.module.body if isinstance(each, ast.ClassDef)}

    def members(self, name):
        names = set()
        for base in self.classes[name].bases:
            if getattr(base, "id", None) in self.classes:
                names |= self.members(base.id)
        for each in self.classes[name].body:
            names.add(each.target.id if isinstance(each, ast.AnnAssign) else each.name)
        return {each for each in names if not each.startswith("_")}

    def test_module(self):
        named = set(self.classes) | {each.name for each in self.module.body if isinstance(each, ast.FunctionDef)}
        named |= {each.target.id for each in self.module.body if isinstance(each, ast.AnnAssign)}
        self.assertEqual({each for each in named if not each.startswith("_")}, public(hmreg))

    def test_types(self):
        for each in TYPES:
            self.assertEqual(self.members(each.__name__), public(each))

    def test_tuples(self):
        tuples = [each for each in vars(hmreg).values() if hasattr(each, "n_sequence_fields")]
        self.assertEqual(len(tuples), 12)
        for each in tuples:
            fields = [entry.target.id for entry in self.classes[each.__name__].body]
            self.assertEqual(fields, list(each.__match_args__))

    def test_docstrings(self):
        for each in TYPES:
            for name in public(each):
                self.assertTrue(getattr(each, name).__doc__, f"{each.__name__}.{name}")
            self.assertTrue(each.__doc__)
        for each in hmreg, hmreg.open, hmreg.explain, hmreg.HmregError:
            self.assertTrue(each.__doc__)
