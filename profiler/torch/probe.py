"""What a machine has, and how its clocks, launches, events and copies behave: before anything is measured by them."""
import os
import statistics
import time

import torch

from executors import CudaStreams, Task, green_streams


def probe(device, parts=0):
    """Findings by name. One that fails says why, and the next one runs."""
    found = {"torch": torch.__version__, "threads": torch.get_num_threads(), "cores": os.cpu_count()}
    todo = CPU + (CUDA if device != "cpu" else [])
    for function in todo:
        try:
            found[function.__name__] = function(torch.device(device), parts)
        except Exception as error:  # a finding too
            found[function.__name__] = f"{type(error).__name__}: {error}"
    return found


def timer_ns(_, __):
    """The least time between two readings of the host's clock."""
    return min(b - a for a, b in ((time.perf_counter_ns(), time.perf_counter_ns()) for _ in range(1000)))


def op_call_ns(device, _):
    """Of the smallest op, from Python: what issuing one costs."""
    x, times = torch.zeros(1, device=device), []
    for _ in range(200):
        begin = time.perf_counter_ns()
        x.add_(1)
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times)


def copy_bytes_per_s(device, _):
    """From memory to memory of the device, 64 MiB."""
    x = torch.zeros(1 << 24, device=device)
    y, times = torch.empty_like(x), []
    for _ in range(5):
        begin = time.perf_counter()
        y.copy_(x)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return round(x.numel() * 4 / statistics.median(times))


def gpu(device, _):
    p = torch.cuda.get_device_properties(device)
    return {"name": p.name, "sms": p.multi_processor_count, "memory": p.total_memory, "capability": f"{p.major}.{p.minor}",
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}


def elapsed_us(function):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def event_adds_us(device, _):
    """100 kernels with no, one and two timed events between them: what one event adds."""
    x, result = torch.zeros(1 << 20, device=device), {}

    def kernels(events):
        for _ in range(100):
            x.add_(1)
            for _ in range(events):
                torch.cuda.Event(enable_timing=True).record()

    for events in (0, 1, 2):
        kernels(events)
        times = []
        for _ in range(10):
            torch.cuda._sleep(20_000_000)
            times.append(elapsed_us(lambda: kernels(events)) / 100)
        result[str(events)] = round(statistics.median(times), 3)
    return result


def launch_queue(device, _):
    """Kernels that can be launched behind a closed gate before a launch waits."""
    x = torch.zeros(1, device=device)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)
    for count in range(20000):
        begin = time.perf_counter()
        x.add_(1)
        if time.perf_counter() - begin > 1e-3:
            torch.cuda.synchronize()
            return count
    torch.cuda.synchronize()
    return ">= 20000"


def host_link(device, _):
    """Pinned copies both ways, microseconds by bytes: one in place, between two events."""
    result = {}
    for size in (256, 4096, 65536, 1 << 20, 1 << 24, 1 << 28):
        here, there = torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.empty(size, dtype=torch.uint8, device=device)
        ways = []
        for to, source in ((there, here), (here, there)):
            times = []
            for _ in range(8):
                torch.cuda._sleep(2_000_000)
                times.append(elapsed_us(lambda: to.copy_(source, non_blocking=True)))
            ways.append(round(statistics.median(times[2:]), 2))
        result[str(size)] = ways
    return result


def captured_streams(device, parts):
    """Four lines that fork, wait for each other and join: eager behind a gate, and as a graph."""
    xs = [torch.zeros(1 << 22, device=device) for _ in range(4)]
    tasks = [Task(("device", i % 4), lambda x=xs[i % 4]: x.add_(1), [i - 1] if i else []) for i in range(16)]
    make = green_streams(device, 4) if parts else None
    streams = {("device", i): make(i) for i in range(4)} if parts else None
    executor = CudaStreams(tasks, {("device", i): device for i in range(4)}, streams)
    for _ in range(3):
        step = executor.step()
    graph = executor.plain(10)
    executor.close()
    return {"eager_ns": step.makespan, "dropped": step.dropped, "graph_ns": graph}


CPU = [timer_ns, op_call_ns, copy_bytes_per_s]
CUDA = [gpu, event_adds_us, launch_queue, host_link, captured_streams]
