// Measures a GPU machine, into one folder: copies over its links, how far own kernels are from the bound by their bytes
// and FLOPs, and how exactly schedules run as predicted on whole GPUs and on parts of one. profiler/gpu_campaign calls
// it.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "calibrate/calibrate.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/gpu_state.hpp"
#include "profiler/run/cuda/kernel_bounds.hpp"
#include "profiler/run/cuda/link_ladder.hpp"
#include "profiler/run/cuda/loader.hpp"
#include "profiler/validate/validate.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/profile_file.hpp"
#include "trainyard/io/output_file.hpp"
#include "trainyard/place/catalogue.hpp"
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

/// Validates a schedule with kernels that take each op's time in place of its work. Errors are then due to the executor
/// or the simulation, and to no op.
void run_delays(Backend& backend, const std::string& model, const Problem& problem, const std::string& placer,
                std::ostream& out) {
  const std::vector<Validation> results =
      trainyard::validate(backend, problem, {}, {{placer, find_placer(placer).place(problem, {})}},
                          {.rounds = 4, .most_ns = 2'000'000'000});
  const Validation& v = results.front();
  const nlohmann::ordered_json line = {{"model", model},
                                       {"parts", problem.device_count()},
                                       {"placer", placer},
                                       {"ops", problem.op_count()},
                                       {"predicted_ns", v.predicted.count},
                                       {"measured_ns", v.measured.count},
                                       {"p10_ns", v.p10.count},
                                       {"p90_ns", v.p90.count},
                                       {"structural_error", v.structural_error},
                                       {"op_time_error", v.op_time_error},
                                       {"link_error", v.link_error},
                                       {"order_kept", v.order_kept},
                                       {"clean_steps", v.clean_steps},
                                       {"steps", v.steps}};
  out << line.dump() << "\n";
}

/// Calibrated times of the links between parts, as the executor uses them.
Calibration calibrated_links(Backend& backend) {
  Profile profile{.name = "parts"};
  const Cluster cluster = make_cluster(joined(2));
  for (const DeviceId id : cluster.devices())
    profile.devices.push_back({.name = cluster.device(id).name,
                               .kind = cluster.device(id).kind,
                               .device_class = "gpu",
                               .backend = "cuda",
                               .peak = cluster.device(id).peak,
                               .memory_bandwidth = cluster.device(id).memory_bandwidth,
                               .details = {}});
  measure_links(backend, cluster, {.most_link_ns = 2'000'000'000}, profile);
  return calibrate::fit_profiles(std::vector<Profile>{profile}).calibration;
}

/// Bytes read and written per second by the largest copy within the GPU.
BytesPerSecond rate_within(const LinkMeasurement& link) {
  const SizeMeasurement& largest = link.sizes.back();
  const auto ns = static_cast<double>(std::ranges::min(largest.samples.kept).count);
  return BytesPerSecond{2 * static_cast<double>(largest.bytes.count) / (ns * 1e-9)};
}

/// Times each op alone against its bound: all results go to the file, slow ones to the screen.
void hold_kernels_against_bounds(Backend& backend, const std::string& model, BytesPerSecond bandwidth,
                                 std::ostream& out) {
  const TrainingStep step = training_step(make_network(model), {});
  ClusterSpec spec = joined(1);
  spec.devices.front().memory_bandwidth = bandwidth;
  const Problem problem{step.graph, make_cluster(std::move(spec))};
  std::size_t slow = 0;
  const auto bounds = kernel_bounds(backend, problem, {.recipe = &step.recipe});
  for (const KernelBound& each : bounds) {
    const bool over = each.ours && each.ratio() > kMostOfBound;
    slow += over;
    const std::string name{step.graph.name(each.op)}, type{step.graph.type(each.op)};
    if (over)
      std::printf("%s %s (%s): %.1f times its lower bound\n", model.c_str(), name.c_str(), type.c_str(), each.ratio());
    out << nlohmann::ordered_json{{"model", model},        {"op", name},
                                  {"type", type},          {"signature", std::string{step.graph.signature(each.op)}},
                                  {"ns", each.time.count}, {"bound_ns", each.bound.count},
                                  {"ours", each.ours},     {"ratio", each.ratio()}}
               .dump()
        << "\n";
  }
  std::printf("%s: %zu of %zu ops take over %.0f times their lower bound in Trainyard's own kernels\n", model.c_str(),
              slow, bounds.size(), kMostOfBound);
}

int run(const std::string& folder) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // line by line, so that a log that is cut off has all lines until then
  widen_queues();                            // before the driver is loaded
  Tables tables;
  const auto source = system_libraries();
  const auto states = load(tables, *source);
  for (const LibraryState& state : states)
    std::printf("%-8s %s %s\n", state.name.c_str(), state.usable() ? state.file.c_str() : state.problem.c_str(),
                state.version.c_str());
  const int gpus = require_gpus(tables, states);
  Profile profile{.name = "gpu-campaign"};
  // Devices of the kinds of gpu_campaign's clusters, whose links take these times.
  profile.devices.push_back({.name = "host", .kind = "cpu-core", .device_class = "cpu"});
  for (int gpu = 0; gpu < gpus; ++gpu)
    profile.devices.push_back({.name = end_name(gpu),
                               .kind = "measured",
                               .device_class = "gpu",
                               .backend = "cuda",
                               .details = gpu_state(tables, gpu)});
  const auto ladder = [&](int from, int to, bool pinned, bool both_ways = false) {
    std::printf("copies %s -> %s%s\n", end_name(from).c_str(), end_name(to).c_str(),
                both_ways ? " (both ways)"
                : pinned  ? ""
                          : " (pageable)");
    profile.links.push_back(link_ladder(tables, from, to, {.pinned = pinned, .both_ways = both_ways}));
  };
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (const bool pinned : {true, false}) {
      ladder(kHost, gpu, pinned);
      ladder(gpu, kHost, pinned);
    }
    ladder(kHost, gpu, true, true);
    ladder(gpu, kHost, true, true);
    ladder(gpu, gpu, true);
    for (int other = 0; other < gpus; ++other)
      if (other != gpu) ladder(gpu, other, true);
  }
  OutputFile links{folder + "/links.json"};
  write_profile(profile, links.stream());
  links.commit();

  const auto within = std::ranges::find(profile.links, "d2d", &LinkMeasurement::path);
  std::ofstream kernels{folder + "/kernels.jsonl"};
  {
    const auto alone = make_cuda_backend();
    for (const std::string model :
         {"resnet50:batch=16", "transformer:batch=8,layers=2", "rnnlm:batch=20,layers=2,hidden=200"}) {
      try {
        hold_kernels_against_bounds(*alone, model, rate_within(*within), kernels);
      } catch (const std::exception& error) {
        std::printf("%s: %s\n", model.c_str(), error.what());
      }
      kernels.flush();
    }
  }

  std::ofstream runs{folder + "/validation.jsonl"};  // line by line: finished runs are kept if the rest is stopped
  const auto backend = make_cuda_backend();
  const Calibration calibration = calibrated_links(*backend);
  for (const std::string model : {"resnet50:batch=8", "transformer:batch=8"}) {
    const Graph graph = training_graph(make_network(model), {});
    for (const unsigned parts : {1u, 2u, 4u, 8u})
      for (const std::string placer : {"heft", "etf", "round-robin"}) {
        try {
          const Problem problem{graph, make_cluster(calibrated(joined(parts), calibration).spec),
                                Costs{cost_model(calibration)}};
          run_delays(*backend, model, problem, placer, runs);
        } catch (const std::exception& error) {  // go on with the rest
          runs << nlohmann::ordered_json{{"model", model}, {"parts", parts}, {"error", error.what()}}.dump() << "\n";
        }
        runs.flush();
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
