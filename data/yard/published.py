#!/usr/bin/env python3
"""Makes a set of the Yard from graphs that others published and that are not kept here.

    data/yard/published.py build/sim/trainyard published
    build/sim/trainyard yard run --set published/published.toml --placers auto,critical-path -o results

The repositories are fetched by git at fixed commits, or taken from `--sources FOLDER`, where each lies under its name. Each
instance made has to have the hash of data/yard/published.hashes; `--write-hashes` writes these anew.

DOPPLER's files (ICLR 2026) give the number of nodes, the nodes that read nothing, the edges' two ends, and for each other
node, by number, its cost and that of sending its output to any device. Its simulator divides costs by 10^10; here 10^10 is a
second, and a transfer of any length waits for no other.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Repository, commit, licence; files, what they are called, and the machines of their instances.
SOURCES = {
    "Doppler": ("https://github.com/xinyuyao/Doppler", "04c66de0aa015bd92ce4a9bb670b19c4fda557d9", "CC BY 4.0"),
    "dnn-partitioning": ("https://github.com/msr-fiddle/dnn-partitioning", "b207b6ad27a1407d321f1e028cea96d7f2c90e3e", "MIT"),
    "pipedream": ("https://github.com/msr-fiddle/pipedream", "7db6a1c3e64996d5b319faec6ca38cb31bfea1c4", "MIT"),
    "DAPPLE": ("https://github.com/AlibabaPAI/DAPPLE", "fd75dcfbc6c73a7624b9fd9d8c3334e5d04bcd20", "BSD-3"),
}


def numbers(line):
    return [int(word) for word in line.replace(" ", "").split(",") if word]


def doppler_graph(path, name):
    lines = path.read_text().splitlines()
    # A comma lost in chain_mm_112nodes.txt: "16,6, 16" for the "16, 16, 16" of gdp_chain_mm_112nodes.txt.
    if path.name == "chain_mm_112nodes.txt" and lines[3].startswith("16,6, "):
        lines[3] = "16, 16, " + lines[3][len("16,6, "):]
    count, inputs, ends = int(lines[0]), numbers(lines[1]), [numbers(lines[2]), numbers(lines[3])]
    others = sorted(set(range(count)) - set(inputs))
    costs = [line.split(",")[:2] for line in lines[4:] if line.strip()]
    if len(ends[0]) != len(ends[1]) or len(others) != len(costs):
        sys.exit(f"{path}: {len(ends[0])} sources of edges and {len(ends[1])} ends, {len(costs)} costs of {len(others)} nodes")
    work = {node: [int(cost) // 10 for cost in row] for node, row in zip(others, costs)}
    ops = []
    for node in range(count):
        nanoseconds, size = work.get(node, [0, 0])
        reads = list(dict.fromkeys(f"t{a}" for a, b in zip(*ends) if b == node))
        ops.append({"name": f"n{node}", "type": "Node", "times_ns": {"gpu": nanoseconds}, "inputs": reads,
                    "outputs": [{"name": f"t{node}", "bytes": size}]})
    return {"format": "trainyard-graph/1", "name": name, "ops": ops}


def plain_cluster(devices):
    """Equal devices, each joined to each by links on which a byte takes a nanosecond."""
    text = f'name = "{devices}-plain"\n'
    text += "".join(f'\n[[device]]\nname = "d{i}"\nkind = "plain"\nclass = "gpu"\n' for i in range(devices))
    for i in range(devices):
        for j in range(i):
            text += f'\n[[link]]\nname = "l{j}-{i}"\nfrom = "d{j}"\nto = "d{i}"\nbandwidth = "1 GB/s"\nsharing = "none"\n'
    return text


def fetched(name, folder, given):
    if given:
        if not (given / name).is_dir():
            sys.exit(f"there is no folder {given / name}: it has to hold {SOURCES[name][0]} at {SOURCES[name][1]}")
        return given / name
    url, commit, _ = SOURCES[name]
    at = folder / "sources" / name
    if not (at / ".git").exists():
        at.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "-C", at, "init", "--quiet"], check=True)
    subprocess.run(["git", "-C", at, "fetch", "--quiet", "--depth", "1", url, commit], check=True)
    subprocess.run(["git", "-C", at, "checkout", "--quiet", "FETCH_HEAD"], check=True)
    return at


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainyard", type=pathlib.Path, help="the program")
    parser.add_argument("folder", type=pathlib.Path, help="where the set is made")
    parser.add_argument("--sources", type=pathlib.Path, help="the repositories, each under its name")
    parser.add_argument("--write-hashes", action="store_true", help="takes what comes out as right")
    asked = parser.parse_args()
    graphs = asked.folder / "graphs"
    graphs.mkdir(parents=True, exist_ok=True)
    grids = []

    def grid(family, models, clusters):
        grids.append(f'[[grid]]\ntier = "medium"\nfamily = "{family}"\nmodel = {json.dumps(models)}\ncluster = {json.dumps(clusters)}\n')

    def imported(path, name):
        named = asked.folder / "graphs" / (name + (".graph.txt" if path.suffix == ".txt" else path.suffix))
        named.write_bytes(path.read_bytes())  # the program tells formats by endings
        made = f"graphs/{name}.json.gz"
        subprocess.run([asked.trainyard, "import", named, "-q", "-o", asked.folder / made], check=True, stdout=subprocess.DEVNULL)
        named.unlink()
        return made

    at = fetched("Doppler", asked.folder, asked.sources)
    for devices in 4, 8:
        (asked.folder / f"plain{devices}.toml").write_text(plain_cluster(devices))
        models = []
        for path in sorted((at / "compute_graph").glob("*nodes.txt" if devices == 4 else "8gpu_*.txt")):
            name = f"doppler-{path.stem}"
            (graphs / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(doppler_graph(path, name)).encode(), mtime=0))
            models.append(f"graphs/{name}.json.gz")
        grid("doppler", models, [f"plain{devices}.toml"])
    at = fetched("dnn-partitioning", asked.folder, asked.sources)
    for inputs, files in ("latency-inputs", "*.json"), ("throughput-inputs", "*_training.json"):  # inference is in both
        for level in "LayerGraphs", "OperatorGraphs":
            found = sorted((at / inputs / level).glob(files))
            grid("dnn-partitioning", [imported(path, f"dnn-{level.removesuffix('Graphs').lower()}-{path.stem}") for path in found],
                 ["cpu-2x2080ti"])
    at = fetched("pipedream", asked.folder, asked.sources)
    found = sorted((at / "profiler").glob("*/profiles/*/graph.txt"))
    grid("pipedream", [imported(path, f"pipedream-{path.parent.name}") for path in found], ["4xV100", "8xV100"])
    at = fetched("DAPPLE", asked.folder, asked.sources)
    found = sorted((at / "profiling_results").glob("*.txt"))
    grid("dapple", [imported(path, f"dapple-{path.stem}") for path in found], ["8xV100"])

    set_file = asked.folder / "published.toml"
    set_file.write_text('name = "published"\n\n' + "\n".join(grids))
    made = subprocess.run([asked.trainyard, "yard", "list", "--compute", "--set", set_file], check=True, capture_output=True, text=True).stdout
    known = HERE / "published.hashes"
    if asked.write_hashes:
        known.write_text(made)
    wrong = sorted(set(made.splitlines()) ^ set(known.read_text().splitlines()))
    if wrong:
        sys.exit("instances made and those of data/yard/published.hashes differ:\n" + "\n".join(wrong))
    print(f"{len(made.splitlines())} instances in {set_file}, all with the hashes of data/yard/published.hashes")


if __name__ == "__main__":
    main()
