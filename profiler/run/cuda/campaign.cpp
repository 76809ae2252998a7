// Everything that a GPU can tell, into one folder: the copies of its links, and how exactly schedules run on the whole
// GPUs and on parts of one. gpu_campaign (the script beside this file) builds and calls it.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "profiler/run/cuda/delay_kernels.hpp"
#include "profiler/run/cuda/gpu_state.hpp"
#include "profiler/run/cuda/green_contexts.hpp"
#include "profiler/run/cuda/link_ladder.hpp"
#include "profiler/run/cuda/loader.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/profile_file.hpp"
#include "trainyard/io/output_file.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::cuda;

namespace {

ClusterSpec joined(std::size_t devices) {
  ClusterSpec spec{.name = "measured"};
  for (std::size_t i = 0; i < devices; ++i)
    spec.devices.push_back({.name = "gpu" + std::to_string(i),
                            .kind = "measured",
                            .device_class = "gpu",
                            .peak = FlopsPerSecond{50e12},
                            .memory_bandwidth = BytesPerSecond{3e12}});
  for (std::size_t i = 0; i < devices; ++i)
    for (std::size_t k = i + 1; k < devices; ++k)
      spec.links.push_back({.name = "l" + std::to_string(i) + "-" + std::to_string(k),
                            .from = spec.devices[i].name,
                            .to = spec.devices[k].name,
                            .bandwidth = BytesPerSecond{100e9},
                            .latency = Nanoseconds{5'000}});
  return spec;
}

/// Runs the schedule with kernels that take each op's time, and replays it with the times that these took: what is left
/// between the two is the structure's error.
void validate(const Tables& tables, const Problem& problem, const std::string& placer, std::vector<Target> targets,
              const std::string& title, std::ostream& out) {
  const Schedule schedule = find_placer(placer).place(problem, {});
  const Timeline timeline = simulate(problem, schedule);
  const ExecutionPlan plan = make_plan(problem, schedule, timeline);
  const DelayKernels kernels{tables, targets.front().gpu};
  CudaExecutor executor{tables, plan, std::move(targets)};
  const Launch launch = [&](const PlanItem& item, std::span<void* const>, std::span<void* const>, Stream stream) {
    kernels.launch(static_cast<double>(problem.duration(item.op, item.from).count), stream);
    return std::size_t{1};
  };
  const ExecutionResult result = executor.run(launch);
  for (const StepRun& step : result.steps) {
    double ops = 0, expected = 0;
    for (std::size_t at = 0; at < plan.items.size(); ++at) {
      if (plan.items[at].is_transfer) continue;
      ops += step.items[at].end_ns - step.items[at].start_ns;
      expected += static_cast<double>((plan.items[at].predicted.end - plan.items[at].predicted.start).count);
    }
    out << "{\"run\": \"" << title << "\", \"placer\": \"" << placer << "\", \"items\": " << plan.items.size()
        << ", \"gated\": " << (result.gated ? "true" : "false") << ", \"predicted_ns\": " << timeline.makespan.count
        << ", \"measured_ns\": " << step.makespan_ns << ", \"op_time_ratio\": " << (expected > 0 ? ops / expected : 1)
        << "}\n";
  }
}

int run(const std::string& folder) {
  Tables tables;
  const auto source = system_libraries();
  const auto states = load(tables, *source);
  for (const LibraryState& state : states)
    std::printf("%-8s %s %s\n", state.name.c_str(), state.usable() ? state.file.c_str() : state.problem.c_str(),
                state.version.c_str());
  const int gpus = require_gpus(tables, states);
  Profile profile{.name = "gpu-campaign"};
  profile.devices.push_back({.name = "host", .device_class = "cpu"});
  for (int gpu = 0; gpu < gpus; ++gpu)
    profile.devices.push_back(
        {.name = end_name(gpu), .device_class = "gpu", .backend = "cuda", .details = gpu_state(tables, gpu)});
  const auto ladder = [&](int from, int to, bool pinned) {
    std::printf("copies %s -> %s%s\n", end_name(from).c_str(), end_name(to).c_str(), pinned ? "" : " (pageable)");
    profile.links.push_back(link_ladder(tables, from, to, {.pinned = pinned}));
  };
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (const bool pinned : {true, false}) {
      ladder(kHost, gpu, pinned);
      ladder(gpu, kHost, pinned);
    }
    ladder(gpu, gpu, true);
    for (int other = 0; other < gpus; ++other)
      if (other != gpu) ladder(gpu, other, true);
  }
  OutputFile links{folder + "/links.json"};
  write_profile(profile, links.stream());
  links.commit();

  std::ofstream runs{folder + "/validation.jsonl"};  // line by line: what was run is kept where the rest is stopped
  for (const std::string model : {"resnet50:batch=8", "transformer:batch=8"}) {
    const Graph graph = training_graph(make_network(model), {});
    for (const unsigned parts : {1u, 2u, 4u, 8u}) {
      const Problem problem{graph, make_cluster(joined(parts))};
      for (const std::string placer : {"heft", "etf", "round-robin"}) {
        try {
          if (parts == 1) {
            validate(tables, problem, placer, {{0, {}}}, model + " on one GPU", runs);
          } else {
            const GreenContexts contexts{tables, 0, parts};
            validate(tables, problem, placer, contexts.targets(), model + " on " + std::to_string(parts) + " parts",
                     runs);
          }
        } catch (const std::exception& error) {  // the rest is still worth having
          runs << "{\"run\": \"" << model << "\", \"parts\": " << parts << ", \"error\": \"" << error.what() << "\"}\n";
        }
        runs.flush();
      }
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : ".");
  } catch (const MissingError& error) {
    std::cerr << "gpu-campaign: " << error.what() << "\nhelp: " << error.help() << "\n";
    return 4;
  } catch (const std::exception& error) {
    std::cerr << "gpu-campaign: " << error.what() << "\n";
    return 1;
  }
}
