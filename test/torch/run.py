"""A torch module is exported, placed and run as scheduled; the last line has the counts for test/run.py."""
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading
import unittest

here = pathlib.Path(__file__).resolve().parent
source = pathlib.Path(os.environ.get("TRAINYARD_SOURCE_DIR", here.parent.parent))
build = pathlib.Path(os.environ.get("TRAINYARD_BUILD_DIR", source / "build"))
sys.path.insert(0, str(source / "sim" / "tools"))
try:
    import torch
    from torch import nn

    import trainyard_torch
except ImportError as error:
    print(f"SKIPPED: {error} (Debian: python3-torch)")
    print("[unittest] test cases: 1 | 1 passed | 0 failed")
    sys.exit(0)

torch.set_num_threads(1)


class Block(nn.Module):
    """A basic block of ResNet, with an in-place activation as in torchvision."""

    def __init__(self, given, made, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made)
        self.conv2, self.bn2 = nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made)
        self.relu = nn.ReLU(inplace=True)
        same = given == made
        self.skip = nn.Identity() if same else nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x):
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + self.skip(x))


def resnet18(classes=1000):
    layers, width = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for made, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, made, stride), Block(made, made, 1)]
        width = made
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def transformer():
    layer = lambda: nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(1000, 128), *(layer() for _ in range(4)), nn.Linear(128, 1000))


def loss_of(outputs):
    labels = torch.arange(outputs[..., 0].numel()) % outputs.shape[-1]
    return nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels)


def step(model, inputs):
    """The loss of one step, and the weights after its update."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = loss_of(model(inputs))
    loss.backward()
    optimizer.step()
    return loss.item(), {name: p.detach().clone() for name, p in model.named_parameters()}


def step_in_threads(stages, inputs):
    """step() with a thread for each stage; queues pass activations forward and gradients back."""
    count, result = len(stages), {}
    forward, backward = [queue.Queue() for _ in range(count + 1)], [queue.Queue() for _ in range(count + 1)]

    def run(rank):
        optimizer = torch.optim.SGD(stages[rank].parameters(), lr=0.1)
        given = forward[rank].get()
        given = given.requires_grad_() if given.is_floating_point() else given
        made = stages[rank](given)
        if rank + 1 < count:
            forward[rank + 1].put(made.detach())
            made.backward(backward[rank + 1].get())
        else:
            loss = loss_of(made)
            loss.backward()
            result["loss"] = loss.item()
        backward[rank].put(given.grad)
        optimizer.step()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    forward[0].put(inputs)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    return result["loss"]


def trainyard(folder, *words):
    done = subprocess.run([str(build / "sim" / "trainyard"), *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"trainyard {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


NETWORKS = {
    # Parameters: 11,689,512 for torchvision's ResNet-18; 128,000 + 4 x 132,480 + 129,000 for the transformer.
    "resnet18": (resnet18, lambda: torch.randn(2, 3, 64, 64), 11_689_512),
    "transformer": (transformer, lambda: torch.randint(0, 1000, (2, 16)), 786_920),
}


class Trip(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def exported(self, name, optimizer="adam"):
        make, inputs, parameters = NETWORKS[name]
        model, given = make(), inputs()
        path = trainyard_torch.export(model, given, self.folder / f"{name}.json", loss=loss_of, optimizer=optimizer, name=name)
        return model, given, path, parameters

    def test_a_graph_has_the_parameters_of_its_model_and_no_weights(self):
        for name in NETWORKS:
            with self.subTest(name):
                _, _, path, parameters = self.exported(name)
                self.assertEqual(path.suffix, ".json")
                self.assertLess(path.stat().st_size, 300_000)
                facts = json.loads(trainyard(self.folder, "import", path.name, "--json").stdout)
                self.assertEqual(facts["parameter_bytes"], 4 * parameters)
                self.assertEqual(facts["state_bytes"], 8 * parameters)  # Adam's two moments
                ops = json.loads(path.read_text())["ops"]
                updates = [op for op in ops if op.get("phase") == "update"]
                self.assertEqual(len(updates), len(list(NETWORKS[name][0]().parameters())))
                self.assertTrue(all(op["inputs"] for op in updates))
                forward = [op for op in ops if op.get("phase") == "forward" and "layer" in op]
                self.assertGreater(len(forward), 40)

    def test_convolutions_count_their_flops(self):
        # ResNet-18 at 224 x 224 has 1.814 G multiply-adds a sample in convolutions and the last layer.
        model = resnet18()
        path = trainyard_torch.export(model, torch.zeros(1, 3, 224, 224), self.folder / "r.json", loss=loss_of)
        ops = json.loads(path.read_text())["ops"]
        products = sum(op["flops"] for op in ops if op["type"] in ("convolution", "addmm"))
        self.assertAlmostEqual(products / 2e9, 1.814, places=3)

    def ops_of(self, model, inputs, **options):
        return json.loads(trainyard_torch.export(model, inputs, self.folder / "m.json", **options).read_text())["ops"]

    def test_products_of_all_kinds_count_their_flops(self):
        class Square(nn.Module):
            def forward(self, x):
                return (x @ x).mv(x[0])

        flops = {op["type"]: op.get("flops") for op in self.ops_of(Square(), torch.zeros(64, 64), optimizer="none")}
        self.assertEqual((flops["mm"], flops["mv"]), (2 * 64**3, 2 * 64**2))
        # 32 x 32 elements of 64 channels, each times 64 x 2 x 2 weights; then gradients of input and weights.
        up = nn.Sequential(nn.Conv2d(3, 64, 1), nn.ConvTranspose2d(64, 64, 2, stride=2))
        forward = [op["flops"] for op in self.ops_of(up, torch.zeros(1, 3, 32, 32)) if op["type"] == "convolution"]
        back = [op["flops"] for op in self.ops_of(up, torch.zeros(1, 3, 32, 32)) if op["type"] == "convolution_backward"]
        self.assertEqual(forward, [2 * 32 * 32 * 64 * 3, 2 * 32 * 32 * 64 * 256])
        self.assertEqual(back, [2 * forward[1], forward[0]])  # no gradient of the image

    def test_parameters_that_are_not_trained_take_their_memory(self):
        model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4)))
        for part in model[:3]:
            part.requires_grad_(False)
        for optimizer in "sgd", "none":
            held = sum(op.get("parameter_bytes", 0) for op in self.ops_of(model, torch.zeros(8, 64), optimizer=optimizer))
            self.assertEqual(held, 4 * 64 * 64 * 4)

    def test_a_write_into_a_part_makes_the_whole_anew(self):
        class Writes(nn.Module):
            def forward(self, x):
                y = x * 2
                y[0] = x[1]
                return y + 1

        ops = self.ops_of(Writes(), torch.zeros(16, 16), optimizer="none")
        written = next(op for op in ops if op["type"] in ("copy", "copy_"))
        self.assertEqual(written["outputs"][0]["bytes"], 4 * 16 * 16)

    def test_tensors_that_the_model_itself_holds_have_their_place_in_a_map(self):
        class Positions(nn.Module):
            def __init__(self, learned):
                super().__init__()
                self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
                if learned:
                    self.pe = nn.Parameter(torch.ones(8))
                else:
                    self.register_buffer("pe", torch.ones(8))

            def forward(self, x):
                return self.b(self.a(x) + self.pe)

        for learned in True, False:
            self.ops_of(Positions(learned), torch.zeros(4, 8))
            trainyard(self.folder, "place", "m.json", "--cluster", "2xV100", "--placer", "expert", "-o", "s.json")
            trainyard(self.folder, "export", "s.json", "--model", "m.json", "--to", "device-map", "-o", "map.json")
            self.assertIn("pe", json.loads((self.folder / "map.json").read_text()))
            model = trainyard_torch.apply(Positions(learned), self.folder / "map.json", devices=["meta", "meta"])
            self.assertEqual(model.pe.device.type, "meta")

    def test_inputs_of_any_class_follow(self):
        class Named(dict):
            last = 3

        moved = trainyard_torch._moved(Named(x=torch.zeros(2)), torch.device("meta"))
        self.assertEqual((type(moved), moved["x"].device.type, moved.last), (Named, "meta", 3))
        packed = nn.utils.rnn.pack_padded_sequence(torch.zeros(3, 2, 4), [3, 2])
        moved = trainyard_torch._moved([packed], torch.device("meta"))[0]
        self.assertEqual((moved.data.device.type, moved.batch_sizes.device.type), ("meta", "cpu"))

    def test_the_trip_to_two_devices_gives_the_same_loss(self):
        for name in NETWORKS:
            with self.subTest(name):
                model, inputs, path, _ = self.exported(name)
                trainyard(self.folder, "place", path.name, "--cluster", "2xV100", "--placer", "pipeline", "-o", "s.json")
                said = trainyard(self.folder, "export", "s.json", "--model", path.name, "--to", "device-map", "-o", "map.json")
                self.assertIn("lost: microbatches", said.stderr)
                device_map = json.loads((self.folder / "map.json").read_text())
                self.assertEqual(set(device_map.values()), {0, 1})
                twin = NETWORKS[name][0]()
                twin.load_state_dict(model.state_dict())
                trainyard_torch.apply(twin, self.folder / "map.json", devices=["cpu", "cpu"])
                loss, weights = step(model, inputs)
                again, others = step(twin, inputs)
                self.assertEqual(loss, again)
                self.assertTrue(all(torch.equal(weights[key], others[key]) for key in weights))

    def test_modules_are_where_the_map_says(self):
        model = trainyard_torch.apply(resnet18(), {"": 0, "8": 1, "9": 1, "9.conv2": 0}, devices=["cpu", "meta"])
        devices = {name: p.device.type for name, p in model.named_parameters()}
        self.assertEqual(devices["0.weight"], "cpu")
        self.assertEqual(devices["8.skip.0.weight"], "meta")
        self.assertEqual(devices["9.bn2.bias"], "meta")
        self.assertEqual(devices["9.conv2.weight"], "cpu")
        meta = trainyard_torch.apply(resnet18(), {"": 0}, devices=["meta"])
        self.assertEqual(meta(torch.zeros(2, 3, 64, 64)).shape, (2, 1000))  # inputs are moved along

    def test_a_plan_splits_a_model_into_stages_that_give_the_same_loss(self):
        for name, split in (("resnet18", "8"), ("transformer", "3")):
            with self.subTest(name):
                model, inputs, path, _ = self.exported(name)
                plan = {"format": "trainyard-plan/1", "batch": 2, "microbatch": 2, "stages": [{}, {"from": split}]}
                (self.folder / "plan.json").write_text(json.dumps(plan))
                trainyard(self.folder, "export", "plan.json", "--model", path.name, "--cluster", "2xV100", "--to",
                          "torch-pipelining", "-o", "pipeline.json")
                points = trainyard_torch.split_points(self.folder / "pipeline.json")
                self.assertEqual(list(points), [split])
                self.assertEqual(list(points), list(trainyard_torch.split_points(self.folder / "plan.json")))
                self.assertEqual((self.folder / "pipeline.csv").read_text().split(), ["0F0,0B0", "1F0,1B0"])
                twin = NETWORKS[name][0]()
                twin.load_state_dict(model.state_dict())
                loss, weights = step(model, inputs)
                self.assertEqual(step_in_threads([twin[: int(split)], twin[int(split):]], inputs), loss)
                others = dict(twin.named_parameters())
                self.assertTrue(all(torch.equal(weights[key], others[key]) for key in weights))

    def test_a_profile_is_imported(self):
        model = transformer()
        execution, kineto = trainyard_torch.profile(model, torch.randint(0, 1000, (2, 16)), self.folder / "t", loss=loss_of)
        words = ["import", str(execution), *(["--times", str(kineto)] if kineto else []), "--json"]
        facts = json.loads(trainyard(self.folder, *words).stdout)
        self.assertGreater(facts["ops"], 100)

    def test_a_recurrent_model_is_exported(self):
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)

            def forward(self, x):
                return self.head(self.lstm(x)[0])

        path = trainyard_torch.export(Recurrent(), {"x": torch.randn(2, 3, 8)}, self.folder / "lstm.json")
        facts = json.loads(trainyard(self.folder, "import", path.name, "--json").stdout)
        self.assertEqual(facts["parameter_bytes"], 4 * (64 * 8 + 64 * 16 + 64 + 64 + 10 * 16 + 10))

    def test_what_torch_fx_cannot_trace_is_written_as_onnx_without_weights(self):
        trace = trainyard_torch._trace

        def fails(*_):
            raise RuntimeError("a graph break")

        trainyard_torch._trace = fails
        self.addCleanup(setattr, trainyard_torch, "_trace", trace)
        with self.assertWarnsRegex(UserWarning, "a graph break"):
            path = trainyard_torch.export(resnet18(), torch.zeros(2, 3, 64, 64), self.folder / "r.json")
        self.assertEqual(path.suffix, ".onnx")
        self.assertLess(path.stat().st_size, 100_000)
        facts = json.loads(trainyard(self.folder, "import", path.name, "--json").stdout)
        self.assertEqual(facts["parameters"], NETWORKS["resnet18"][2])

    def test_the_readmes_model_makes_its_trip(self):
        readme = (source / "README.md").read_text(encoding="utf-8")
        program, trip = re.search(r"```python\n(import torch.*?)```(.*?)```python\napply", readme, re.DOTALL).groups()
        here = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, here)
        names = {}
        exec(program, names)
        for command in re.findall(r"^\$ trainyard (.*(?:schedule|map).json)$", trip, re.MULTILINE):
            said = trainyard(self.folder, *command.split()).stdout
        self.assertEqual(said, re.search(r"map.json\n(step time.*?)```", trip, re.DOTALL)[1])
        trainyard_torch.apply(names["model"], "map.json", devices=["cpu", "meta"])
        self.assertEqual([p.device.type for p in (names["model"].layers[i].linear1.weight for i in (0, 23))], ["cpu", "meta"])

    def test_what_cannot_be_is_said(self):
        model = transformer()
        with self.assertRaisesRegex(ValueError, "'lamb' is not one of none, sgd"):
            trainyard_torch.export(model, torch.zeros(1, 2, dtype=torch.long), optimizer="lamb")
        with self.assertRaisesRegex(ValueError, "does not cover 5.weight"):
            trainyard_torch.apply(model, {str(i): 0 for i in range(5)}, devices=["cpu"])
        (self.folder / "s.json").write_text('{"format": "trainyard-schedule/1"}')
        with self.assertRaisesRegex(ValueError, "--to device-map"):
            trainyard_torch.apply(model, self.folder / "s.json")
        with self.assertRaisesRegex(ValueError, "neither a plan nor a split spec"):
            trainyard_torch.split_points(self.folder / "s.json")
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        with self.assertRaisesRegex(ValueError, "optimizer='none'"):
            trainyard_torch.export(model, torch.zeros(1, 2, dtype=torch.long))


if __name__ == "__main__":
    outcome = unittest.TextTestRunner(verbosity=0 if sys.argv[1:] == [] else 2).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Trip))
    failed = len(outcome.failures) + len(outcome.errors)
    print(f"[unittest] test cases: {outcome.testsRun} | {outcome.testsRun - failed} passed | {failed} failed")
    sys.exit(1 if failed else 0)
