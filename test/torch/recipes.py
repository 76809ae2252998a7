"""Recipes run by PyTorch: results are compared with torch.autograd and the cpu backend; the program reads the files.

The last line has the counts for test/run.py.
"""
import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

here = pathlib.Path(__file__).resolve().parent
source = pathlib.Path(os.environ.get("TRAINYARD_SOURCE_DIR", here.parent.parent))
build = pathlib.Path(os.environ.get("TRAINYARD_BUILD_DIR", source / "build"))
sys.path.insert(0, str(source / "profiler" / "torch"))
try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error} (Debian: python3-torch)")
    print("[unittest] test cases: 1 | 1 passed | 0 failed")
    sys.exit(0)

import executors
import kernels
import measure
from program import autograd_gradients, run_serially
from recipe import Recipe, RecipeError, first_state, random_bits

torch.set_num_threads(1)
RUN = source / "profiler" / "torch" / "run.py"
NETWORKS = {  # small networks of each family
    "lenet": "lenet:batch=2",
    "resnet18": "resnet18:batch=4,image=64",
    "transformer": "transformer:batch=2,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4",
    "rnnlm": "rnnlm:batch=2,steps=3,layers=2,hidden=8,vocabulary=20",
    "nmt": "nmt:batch=2,steps=3,hidden=8,layers=2,vocabulary=20,fused=1",
}

# Operators with separate gradients: input shapes, attributes, and the inputs whose gradients are checked.
TWO, PAD = [2, 2], [1, 1, 1, 1]
OPERATORS = [
    ("Relu", [[3, 4]], {}), ("Sigmoid", [[3, 4]], {}), ("Tanh", [[3, 4]], {}), ("Exp", [[3, 4]], {}), ("Neg", [[3, 4]], {}),
    ("Gelu", [[3, 4]], {}), ("Gelu", [[3, 4]], {"approximate": "tanh"}), ("Softmax", [[3, 4]], {"axis": 1}),
    ("LogSoftmax", [[3, 4]], {}), ("Add", [[3, 4], [4]], {}), ("Sub", [[3, 1], [3, 4]], {}), ("Mul", [[3, 4], [1, 4]], {}),
    ("Mean", [[3, 4], [4]], {}), ("Div", [[3, 4], [1, 4]], {}), ("Where", [[3, 4], [4], [3, 4]], {}),
    ("Sum", [[3, 4], [4], [1]], {}), ("Linear", [[2, 3, 4], [4, 5], [5]], {}), ("MatMul", [[2, 3, 4], [4, 5]], {}),
    ("MatMul", [[2, 1, 3, 4], [3, 4, 2]], {}), ("Gemm", [[3, 4], [4, 5], [5]], {"alpha": 0.5, "beta": 2.0}),
    ("Gemm", [[4, 3], [5, 4], [3, 1]], {"transA": 1, "transB": 1}), ("Gemm", [[4, 3], [4, 5]], {"transA": 1, "alpha": 0.5}),
    ("Conv", [[2, 4, 5, 5], [6, 4, 3, 3], [6]], {"pads": PAD, "strides": TWO}),
    ("Conv", [[2, 4, 5, 5], [4, 1, 3, 3]], {"group": 4, "dilations": TWO}), ("Conv", [[2, 4, 6], [6, 2, 3]], {"group": 2}),
    ("Conv", [[2, 3, 6, 6], [4, 3, 3, 3]], {"auto_pad": "SAME_UPPER", "strides": TWO}),
    ("MaxPool", [[2, 2, 5, 5]], {"kernel_shape": [3, 3], "strides": TWO, "pads": PAD}),
    ("MaxPool", [[2, 2, 6, 6]], {"kernel_shape": [3, 3], "strides": TWO, "pads": [0, 0, 1, 1]}),
    ("AveragePool", [[2, 2, 5, 5]], {"kernel_shape": [3, 3], "strides": TWO, "pads": PAD}),
    ("AveragePool", [[2, 2, 6, 6]], {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1], "count_include_pad": 1}),
    ("GlobalAveragePool", [[2, 3, 4, 4]], {}), ("LayerNormalization", [[3, 5], [5], [5]], {}),
    ("LayerNormalization", [[2, 3, 5], [3, 5], [3, 5]], {"axis": 1}),
    ("BatchNormalization", [[3, 2, 4], [2], [2], [2], [2]], {}),
]


def operator(kind, shapes, attributes):
    """A recipe of one node with its inputs, as far as kernels need it."""
    class OneNode:
        values = [{"shape": shape, "type": "float32"} for shape in shapes]
        nodes = [{"type": kind, "inputs": list(range(len(shapes))), "outputs": [len(shapes)], "attributes": attributes,
                  "batch_statistics": True}]

    generator = torch.Generator().manual_seed(1)
    c = kernels.Call(OneNode, 0, None)
    c.inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    if kind == "BatchNormalization":
        c.inputs[4] = c.inputs[4].abs()
    if kind == "Where":
        c.inputs[0] = (c.inputs[0] > 0).float()
    try:
        size = kernels.FORWARD[kind](c)[0].shape
    except IndexError:  # padding needs the output's shape
        size = [2, 4, 3, 3]
    OneNode.values.append({"shape": list(size), "type": "float32"})
    return c


class Streams:
    """Fake CUDA streams and events, as far as the executor calls them.

    Each record is a microsecond after the previous one. A wait for an event that was not recorded, which CUDA accepts,
    is an error.
    """

    def __init__(self):
        now = itertools.count()
        self.waits = []
        streams = self

        class Event:
            def __init__(self, enable_timing=False):
                self.at, self.timing = None, enable_timing

            def record(self, stream):
                self.at = next(now)

            def query(self):
                return False

            def synchronize(self):
                assert self.at is not None

            def elapsed_time(self, end):
                assert self.timing and end.timing
                return (end.at - self.at) / 1e3

        class Stream:
            def __init__(self, device=None):
                self.device = device

            def wait_event(self, event):
                assert event.at is not None
                streams.waits.append((self, event.at))

        class Graph:
            def replay(self):
                next(now)

        self.names = {"Event": Event, "Stream": Stream, "CUDAGraph": Graph, "current_device": lambda: 0, "synchronize": lambda: None,
                      "_sleep": lambda cycles: None, "stream": lambda stream: contextlib.nullcontext(),
                      "graph": lambda graph, stream: contextlib.nullcontext()}


def called(*words, status=0, folder=None):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=folder)
    if done.returncode != status:
        raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def trainyard(*words, status=0):
    return called(build / "sim" / "trainyard", *words, status=status)


def run(*words, status=0):
    return called(sys.executable, RUN, *words, status=status)


class Recipes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def export(self, model, *words, devices=2):
        path = self.folder / "recipe.json"
        trainyard("export", model, "--cluster", f"{devices}xcpu-core", "--to", "recipe", *words, "-o", path)
        return path

    def test_random_numbers_are_those_of_xoshiro256(self):
        mask = (1 << 64) - 1
        rotated = lambda x, by: ((x << by) | (x >> (64 - by))) & mask
        s, expected = first_state(1, 5), []
        for _ in range(1000):
            expected.append((rotated((s[0] + s[3]) & mask, 23) + s[0]) & mask)
            t = (s[1] << 17) & mask
            s[2] ^= s[0]
            s[3] ^= s[1]
            s[1] ^= s[2]
            s[0] ^= s[3]
            s[2] ^= t
            s[3] = rotated(s[3], 45)
        for count in (0, 1, 7, 1000):  # any length gives this stream
            self.assertEqual([x & mask for x in random_bits(1, 5, count).tolist()], expected[:count])

    def test_dropout_keeps_what_the_cpu_backend_keeps(self):
        class Seeded:
            seed = 3

        def chance(element, node=5, mask=(1 << 64) - 1):  # profiler/kernels/cpu/rows.cpp
            z = ((3 << 20) + node + (element + 1) * 0x9E3779B97F4A7C15) & mask
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            return ((z ^ (z >> 31)) >> 40) * 2.0**-24

        kept = Recipe.dropout_mask(Seeded, 5, [10, 20], 0.25)
        self.assertEqual(kept.reshape(-1).tolist(), [chance(i) >= 0.25 for i in range(200)])

    def test_each_operators_own_gradient_is_autograds(self):
        for kind, shapes, attributes in OPERATORS:
            with self.subTest(f"{kind} {shapes} {attributes}"):
                c = operator(kind, shapes, attributes)
                c.wants = [1, 2] if kind == "Where" else list(range(min(3, len(shapes))))
                c.outputs = kernels.run_forward(c)
                c.dy = [torch.randn(c.outputs[0].shape, generator=torch.Generator().manual_seed(2))]
                self.assertFalse(kernels.recomputes(kind))
                own, kept = kernels.run_backward(c), c.kept
                expected = kernels.by_autograd(c)
                for i in c.wants:
                    self.assertLess(float((own[i] - expected[i]).abs().max()), 1e-5, i)
                # One gradient at a time, given only the arrays that it reads.
                if kind == "Conv" and "auto_pad" not in attributes:
                    whole = list(c.inputs)
                    for i, unread in ((0, 0), (1, 1)):
                        c.wants, c.kept, c.inputs = [i], kept, [None if at == unread else x for at, x in enumerate(whole)]
                        self.assertLess(float((kernels.run_backward(c)[i] - own[i]).abs().max()), 1e-5)

    def test_loss_and_gradients_are_those_of_the_cpu_backend(self):
        for name, model in NETWORKS.items():
            with self.subTest(name):
                recipe = Recipe(self.export(model))
                there = self.folder / "gradients"
                loss = float(called(build / "test" / "torch" / "cpu_gradients", model, there).stdout)
                here = measure.Machine(recipe)
                with torch.no_grad():
                    run_serially(here.program, recipe.serial(0), 0)
                got, gradients = measure.outputs_of(here.program)
                self.assertAlmostEqual(got, loss, delta=2e-6 * abs(loss))
                named = {recipe.values[i]["name"]: g for i, g in gradients.items()}
                seen = 0
                with open(there, "rb") as file:
                    while line := file.readline():
                        count = int(file.readline())
                        expected = torch.frombuffer(bytearray(file.read(4 * count)), dtype=torch.float32)
                        got = named[line.decode().rstrip("\n")]
                        # Sums in another order: within 1e-4 of the parameter's largest gradient.
                        self.assertLessEqual(float((got - expected).abs().max()), 1e-4 * float(expected.abs().max()) + 1e-7, line)
                        seen += 1
                self.assertEqual(seen, len(named))

    def test_gradients_are_those_of_autograd(self):
        for name, model in NETWORKS.items():
            with self.subTest(name):
                # Gradients of an op in one op, and separately for data, weights and bias.
                for granularity in ("op", "fine"):
                    here = measure.Machine(Recipe(self.export(model, "--granularity", granularity)))
                    loss, expected = autograd_gradients(here.program)
                    with torch.no_grad():
                        run_serially(here.program, here.recipe.serial(0), 0)
                    got = measure.outputs_of(here.program)
                    self.assertEqual(got[0], loss)
                    most = max(float(g.abs().max()) for g in expected.values())
                    for i, g in expected.items():
                        self.assertLess(float((got[1][i].reshape(g.shape) - g).abs().max()), 1e-5 * most, here.recipe.values[i]["name"])

    def test_bfloat16_is_near_autograd_too(self):
        self.assertIn("gradients of", run("check", self.export(NETWORKS["transformer"], "--precision", "bfloat16")).stdout)

    def test_a_step_without_a_loss_has_no_gradients_to_check(self):
        self.assertIn("forward only", run("check", self.export("lenet:batch=2", "--training", "none"), status=3).stderr)

    def test_optimizers_make_the_steps_that_torch_optim_makes(self):
        # Three steps on one parameter must equal those of torch.optim with equal constants.
        makers = {"sgd": lambda p: torch.optim.SGD(p, 1e-3), "momentum": lambda p: torch.optim.SGD(p, 1e-3, 0.9),
                  "adam": lambda p: torch.optim.Adam(p, 1e-3, (0.9, 0.999), 1e-8)}
        for optimizer, make in makers.items():
            with self.subTest(optimizer):
                program = measure.Machine(Recipe(self.export("lenet:batch=2", "--training", optimizer))).program
                leaves, ours = {}, None
                for _ in range(3):
                    with torch.no_grad():
                        run_serially(program, program.recipe.serial(0), 0)
                    if ours is None:
                        for i in program.gradients:
                            leaves[i] = program.held(program.at[0], i).clone().requires_grad_()
                        ours = make(list(leaves.values()))
                    for i, g in program.gradients.items():
                        leaves[i].grad = g.reshape(leaves[i].shape).clone()
                    ours.step()
                    program.commit()
                    for i, leaf in leaves.items():
                        self.assertLess(float((program.held(program.at[0], i) - leaf).abs().max()), 2e-6)

    def test_a_profile_is_calibrated(self):
        recipe, profile = self.export("lenet:batch=8", "--placer", "round-robin"), self.folder / "profile.json"
        run("profile", recipe, "-o", profile, "--rounds", 2)
        trainyard("calibrate", profile, "--accept", "-o", self.folder / "calibration.json")
        said = json.loads(trainyard("simulate", "lenet:batch=8", "--cluster", "2xcpu-core", "--placer", "single", "--costs",
                                    self.folder / "calibration.json", "--json").stdout)
        step = json.loads(profile.read_text())["steps"][0]["samples_ns"]
        # The step as the sum of its ops and gaps: near the measured one, except for other work on this machine.
        self.assertLess(min(step) / 3, said["makespan_ns"])
        self.assertLess(said["makespan_ns"], 3 * max(step))

    def test_runs_are_validated_and_ranked(self):
        recipe, runs, model = self.export("lenet:batch=8", "--rank", 4), self.folder / "runs.json", "lenet:batch=8"
        self.assertIn("heft:", run("execute", recipe, "-o", runs, "--rounds", 4).stdout)
        told = json.loads(runs.read_text())
        self.assertEqual([each["outputs_agree"] for each in told["runs"]], [True] * 4)
        self.assertEqual(len({each["loss"] for each in told["runs"]}), 1)
        words = ["validate", model, "--cluster", "2xcpu-core", "--backend", "recorded", "--runs", runs]
        done = subprocess.run([build / "sim" / "trainyard", *words, "--rank", "4", "--json"], capture_output=True, text=True)
        found = json.loads(done.stdout)
        self.assertNotIn("errors", found)
        self.assertTrue(found["order_kept"] and found["outputs_agree"], found["why"])
        self.assertEqual(found["steps"], 12)  # 4 rounds of 3
        self.assertEqual([each["name"] for each in found["placements"]], [each["schedule"] for each in told["runs"]])
        # The median is that of a step in the file: the page and the ranking are about these steps.
        clean = sorted(step["makespan_ns"] for step in told["runs"][0]["steps"])
        self.assertIn(found["measured_ns"]["p50"], clean)
        # Steps without timed ops are reported beside it.
        told["runs"][0]["plain_ns"] = [2_000_000, 3_000_000, 4_000_000]
        plain = self.folder / "plain.json"
        plain.write_text(json.dumps(told))
        done = subprocess.run([build / "sim" / "trainyard", *words[:-1], plain], capture_output=True, text=True)
        self.assertIn("a step in which no op is timed takes 3.00 ms (", done.stdout)
        refused = trainyard("validate", model, "--cluster", "2xcpu-core", "--placer", "cpop", "--backend", "recorded", "--runs", runs, status=3)
        self.assertRegex(refused.stderr, "no recorded run has the schedule.*\n?.*heft")
        other = trainyard("validate", "lenet:batch=4", "--cluster", "3xcpu-core", "--backend", "recorded", "--runs", runs, status=3)
        self.assertIn("no recorded run", other.stderr)
        other = trainyard(*["validate", "alexnet:batch=1", *words[2:]], status=3)
        self.assertIn("these runs have", other.stderr)

    def test_placers_that_agree_are_run_once(self):
        recipe, runs = self.export("lenet:batch=2", "--rank", 3, devices=1), self.folder / "runs.json"
        run("execute", recipe, "-o", runs, "--rounds", 4)
        # The third placer's schedule equals that of single.
        self.assertEqual([each["schedule"] for each in json.loads(runs.read_text())["runs"]], ["heft", "single"])
        done = subprocess.run([build / "sim" / "trainyard", "validate", "lenet:batch=2", "--cluster", "1xcpu-core", "--rank", "3",
                               "--backend", "recorded", "--runs", runs, "--json"], capture_output=True, text=True)
        self.assertEqual(len(json.loads(done.stdout)["placements"]), 3)

    def test_transfers_by_the_hosts_memory_make_the_same_numbers(self):
        recipe, runs = self.export("lenet:batch=2", "--placer", "round-robin"), self.folder / "runs.json"
        run("execute", recipe, "-o", runs, "--rounds", 1, "--links", "bounced")
        told = json.loads(runs.read_text())
        self.assertTrue(told["runs"][0]["transfers"] and told["runs"][0]["outputs_agree"])
        self.assertEqual(told["details"]["links"], "host-bounce")

    def test_streams_wait_for_what_was_recorded_and_make_the_same_numbers(self):
        recipe = Recipe(self.export("lenet:batch=2", "--placer", "round-robin"))
        machine = measure.Machine(recipe)
        expected, _ = measure.reference(machine)
        streams = Streams()
        with unittest.mock.patch.multiple(executors.torch.cuda, **streams.names, create=True):
            step = executors.ScheduledStep(machine.program, recipe.schedules[0], executors.Transfers())
            lines = {task.line for task in step.tasks}
            executor = executors.CudaStreams(step.tasks, {line: machine.device for line in lines})
            step.begin()
            taken = executor.step()
            self.assertEqual(measure.difference(expected, measure.outputs_of(machine.program)), 0)
            self.assertEqual(taken.dropped, "")
            for task, (begin, end) in zip(step.tasks, taken.spans):
                if not task.before_step:  # after all tasks that it waits for
                    self.assertTrue(all(taken.spans[other][1] <= begin < end for other in task.waits))
            crossing = sum(step.tasks[other].line != task.line for task in step.tasks for other in task.waits)
            self.assertEqual(len(streams.waits), 2 * len(lines) + crossing)  # fork, join, and between lines
            step.begin()
            self.assertEqual(executor.plain(5), [2000] * 5)  # a replay and its final event
            executor.close()

    def test_parts_of_a_gpu_have_streams_of_their_own_and_links_what_they_leave(self):
        # The part of cuda-bindings that green contexts need: 132 SMs, in parts of eight.
        class Resource:
            def __init__(self, sms):
                self.sm = types.SimpleNamespace(smCount=sms)

        driver = unittest.mock.MagicMock()
        driver.CUresult.CUDA_SUCCESS = 0
        driver.cuDeviceGet.return_value = (0, 0)
        driver.cuDeviceGetDevResource.return_value = (0, Resource(132))
        driver.cuDevSmResourceSplitByCount.side_effect = lambda parts, whole, flags, least: (
            0, [Resource(least)] * parts, parts, Resource(whole.sm.smCount - parts * least))
        driver.cuDevResourceGenerateDesc.side_effect = lambda groups, count: (0, groups[0].sm.smCount)
        driver.cuGreenCtxCreate.side_effect = lambda sms, device, flags: (0, sms) if sms >= self.least else (914, None)
        driver.cuGreenCtxStreamCreate.side_effect = lambda sms, flags, priority: (0, sms)
        bindings = types.ModuleType("cuda.bindings")
        bindings.driver = driver
        modules = {"cuda": types.ModuleType("cuda"), "cuda.bindings": bindings, "cuda.bindings.driver": driver}
        fakes = {"init": lambda: None, "ExternalStream": lambda pointer, device: pointer, "Stream": lambda device: "any"}
        with unittest.mock.patch.dict(sys.modules, modules), unittest.mock.patch.multiple(executors.torch.cuda, create=True, **fakes):
            for self.least, left in ((1, 4), (8, "any")):
                stream = executors.green_streams(torch.device("cpu"), 4)
                self.assertEqual([stream(part) for part in (0, 3, None)], [32, 32, left])

    def test_collect_packs_what_it_measured(self):
        folder = self.folder / "out"
        said = run("collect", folder, self.export("lenet:batch=2", "--placer", "round-robin"), "--rounds", 1, "--time", 60).stdout
        self.assertEqual(said, f"{folder}.tar.gz\n")
        self.assertEqual(sorted(each.name for each in folder.iterdir()), ["probe.json", "recipe.profile.json", "recipe.runs.json"])

    def test_traces_of_a_step_are_imported(self):
        folder = self.folder / "traces"
        for precision in ("float32", "bfloat16"):
            recipe = self.export(NETWORKS["transformer"], "--precision", precision, devices=1).rename(self.folder / f"net-{precision}.json")
            path = pathlib.Path(run("trace", folder, recipe).stdout.split()[0])
            self.assertEqual(path, folder / f"net-{precision}.et.json.gz")
            step = json.loads(trainyard("import", path, "--json").stdout)["steps"][0]
            self.assertTrue(min(step["forward"], step["backward"], step["update"]) > 50, step)
        self.assertIn("no time left", run("trace", folder, recipe, "--time", 0, status=1).stdout)

    def test_ops_beside_each_other_are_calibrated_as_interference(self):
        recipe, found, calibration = self.export("lenet:batch=2", devices=3), self.folder / "corun.json", self.folder / "c.json"
        run("corun", recipe, "-o", found, "--time", 30)
        rows = json.loads(found.read_text())["ops"]
        alone = [row for row in rows if "copied_bytes_per_s" not in row]
        beside = [row for row in rows if row.get("copied_bytes_per_s", 0) > 0]
        self.assertEqual(len({row["type"] for row in alone}), 8)
        self.assertEqual(len(alone) + len(beside), len(rows))
        self.assertIn("1 x MatMul", {row["details"]["beside"] for row in beside})
        trainyard("calibrate", found, "--accept", "-o", calibration)
        factors = json.loads(calibration.read_text())["interference"]
        self.assertTrue(factors and all(row["sensitivity"] >= 0 for row in factors))
        self.assertIn("no neighbours", run("corun", self.export("lenet:batch=2", devices=1), "-o", found, status=3).stderr)

    def test_the_documented_recipe_is_one(self):
        page = (source / "lib" / "trainyard" / "io" / "FORMATS.md").read_text(encoding="utf-8")
        path = self.folder / "page.json"
        path.write_text(next(part.split("```")[0] for part in page.split("```json\n") if "trainyard-recipe/1" in part[:40]))
        recipe = Recipe(path)
        self.assertEqual([op["kind"] for op in recipe.ops], ["input", "forward"])
        tensors = {}
        program = measure.Machine(recipe).program
        for op in (0, 1):
            program.run(op, 0, tensors)
        product = recipe.first_numbers(0) @ recipe.first_numbers(1)
        self.assertLess(float((tensors[1] - product).abs().max()), 1e-6)

    def test_what_is_no_recipe_is_refused(self):
        good = json.loads(self.export("lenet:batch=2", "--placer", "round-robin").read_text())
        relu = next(i for i, node in enumerate(good["nodes"]) if node["type"] == "Relu")
        reads = next(i for i, op in enumerate(good["ops"]) if op.get("reads", [None])[0] and "tensor" in op["reads"][0])

        def changed(change):
            data = json.loads(json.dumps(good))
            change(data)
            return json.dumps(data)

        def late(data):  # the first op with an operand, moved to the front
            tasks = data["schedules"][0]["tasks"]
            tasks.insert(0, tasks.pop(tasks.index(reads)))

        whole = json.dumps(good)
        cases = {
            "no kernel for Unheard": changed(lambda data: data["nodes"][relu].update(type="Unheard")),
            "there are": changed(lambda data: data["ops"][reads]["reads"][0].update(tensor=10**6)),
            "which no op produces": changed(lambda data: data["ops"].__getitem__(0).update(results=[])),
            "expected \"trainyard-recipe/1\"": changed(lambda data: data.update(format="trainyard-recipe/2")),
            "export it again": whole[: len(whole) // 2],
            "incomplete recipe": changed(lambda data: data.pop("nodes")),
            "has not arrived": changed(late),
            "the kind \"forwards\"": changed(lambda data: data["ops"][reads].update(kind="forwards")),
            "the type \"float8\"": changed(lambda data: data["values"][0].update(type="float8")),
        }
        path = self.folder / "bad.json"
        for message, text in cases.items():
            with self.subTest(message):
                path.write_text(text)
                self.assertIn(message, run("check", path, status=3).stderr)
        self.assertIn("No such file", run("check", self.folder / "none.json", status=3).stderr)
        with self.assertRaisesRegex(RecipeError, "--device cuda"):
            if torch.cuda.is_available():
                raise RecipeError("--device cuda: there is a GPU here")
            measure.Machine(Recipe(self.export("lenet:batch=2")), "cuda")


if __name__ == "__main__":
    outcome = unittest.TextTestRunner(verbosity=0 if sys.argv[1:] == [] else 2).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Recipes))
    failed = len(outcome.failures) + len(outcome.errors)
    print(f"[unittest] test cases: {outcome.testsRun} | {outcome.testsRun - failed} passed | {failed} failed")
    sys.exit(1 if failed else 0)
