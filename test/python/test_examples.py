"""The Python code that the documents show works as printed."""
import ast
import contextlib
import io
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tempfile
import unittest

import trainyard as ty
from notebook import run_cells, stored_texts

SOURCE = pathlib.Path(os.environ.get("TRAINYARD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
EXAMPLES = SOURCE / "data" / "examples" / "python"


class Examples(unittest.TestCase):
    def run_script(self, name, *words):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            before, sys.argv = sys.argv, [name, *words]
            try:
                runpy.run_path(str(EXAMPLES / name), run_name="__main__")
            finally:
                sys.argv = before
        return printed.getvalue()

    def test_the_notebook_prints_what_stands_in_it(self):
        notebook = json.loads((EXAMPLES / "placements.ipynb").read_text(encoding="utf-8"))
        self.assertEqual(run_cells(notebook, EXAMPLES), stored_texts(notebook))

    def test_reinforce_learns(self):
        # Uniform draws all cost about as much as "random". After 200 updates the policy is far below.
        rows = {line.split()[0]: float(line.split()[1]) for line in self.run_script("reinforce.py").splitlines()}
        self.assertEqual(sorted(rows), ["heft", "random", "reinforce", "single"])
        self.assertLess(rows["reinforce"], 0.75 * rows["random"])

    def test_the_policies_in_environments(self):
        text = self.run_script("environment.py")
        self.assertRegex(text, r"balanced work: [\d.]+ ms, reward -[\d.]+\n500 moves from one device: [\d.]+ ms\n")

    def test_the_readmes_program_prints_its_output(self):
        readme = (SOURCE / "README.md").read_text(encoding="utf-8")
        program, output = re.search(r"```python\n(import numpy.*?)```\s*```\n(.*?)```", readme, re.DOTALL).groups()
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True,
                                 env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path[:2])))
        self.assertEqual(ran.stderr, "")
        self.assertEqual(ran.stdout, output)


class Stubs(unittest.TestCase):
    def test_the_stubs_name_what_there_is_and_nothing_else(self):
        tree = ast.parse((SOURCE / "lib/python/trainyard/_core.pyi").read_text())
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.assertEqual(sorted([*classes, *functions]), sorted(ty.__all__))
        for name, node in classes.items():
            if name.endswith("Error"):
                continue
            stubbed = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            real = {each for each in vars(getattr(ty, name)) if not each.startswith("_")}
            self.assertEqual({each for each in stubbed if not each.startswith("_")}, real, name)

    def test_everything_says_what_it_is(self):
        for name in ty.__all__:
            self.assertTrue(getattr(ty, name).__doc__, name)


class Import(unittest.TestCase):
    def test_numpy_and_networkx_wait_until_they_are_used(self):
        program = "import sys, trainyard; print(sorted({'numpy', 'networkx', 'gymnasium', 'pandas'} & set(sys.modules)))"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                             env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path[:2])))
        self.assertEqual(ran.stdout, "[]\n")


if __name__ == "__main__":
    unittest.main()
