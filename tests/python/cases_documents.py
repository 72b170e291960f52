# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The Python that documents show runs."""
import contextlib
import io
import os
import re
import unittest

import hmreg

SOURCE = os.environ["SOURCE_DIR"]


def blocks(document):
    with open(os.path.join(SOURCE, document), encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)


def printed(code):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "document", "exec"), {})
    return output.getvalue()


class Documents(unittest.TestCase):
    def test_page(self):
        transfer, error, hibernating = blocks("docs/python.md")
        self.assertEqual(printed(transfer), "bytearray(b'hello') 1\n")
        self.assertIn("it must have", printed(error))
        self.assertEqual(printed(hibernating), "other life\n")

    def test_docstring(self):
        sent = []
        code = re.search(r"\n    with .*?\n\n", hmreg.__doc__, re.S).group().replace("\n    ", "\n")
        exec(code, {"hmreg": hmreg, "buffer": bytearray(100), "send_to_peer": sent.append})
        self.assertEqual(len(sent), 1)
