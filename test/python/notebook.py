"""Runs the cells of a notebook in one namespace, as a kernel does; outputs are printed text and the last value.

    python3 notebook.py FILE.ipynb        replaces the outputs in the file
"""
import ast
import contextlib
import io
import json
import pathlib
import sys


def run_cells(notebook, folder):
    """The output of each code cell as one text: printed lines, then the repr of the last expression."""
    names, texts = {"__name__": "__main__"}, []
    sys.path.insert(0, str(folder))
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(tree, "cell", "exec"), names)
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
            texts.append(printed.getvalue() + ("" if value is None else repr(value) + "\n"))
    finally:
        sys.path.remove(str(folder))
    return texts


def stored_texts(notebook):
    return ["".join("".join(each["text"]) for each in cell["outputs"]) for cell in notebook["cells"]
            if cell["cell_type"] == "code"]


def main(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    texts = iter(run_cells(notebook, path.parent))
    for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        text = next(texts)
        cell["execution_count"] = number + 1
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text.splitlines(True)}] if text else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
