#include "profiler/run/cpu/cpu_backend.hpp"

#include "profiler/run/cpu/alone.hpp"
#include "profiler/run/cpu/cpu_run.hpp"
#include "profiler/run/cpu/memory_links.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : options_(options) {}
  std::string name() const override { return "cpu"; }
  bool emulates_links() const override { return true; }
  std::vector<AloneSample> time_alone(const Problem& problem, const Workload& workload, DeviceId device,
                                      MeasureMode mode, int samples) override {
    return cpu::time_alone(problem, workload, device, mode, samples);
  }
  std::vector<ThreadSample> time_threads(const Problem& problem, const Workload& workload, int most,
                                         int samples) override {
    return cpu::time_threads(problem, workload, most, samples);
  }
  std::vector<LinkMeasurement> measure_links(const Cluster& cluster, std::int64_t most_ns) override {
    return cpu::measure_memory_links(cluster, {.most_ns = most_ns});
  }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                       const Schedule& schedule) override {
    std::vector<Finding> findings;
    for (const DeviceId id : problem.devices()) {
      const Device& device = problem.cluster().device(id);
      if (workload.recipe && device.device_class != "cpu")
        findings.push_back(
            {.code = "unsupported-device",
             .message = "the cpu backend cannot run ops on '" + device.name + "', a " + device.device_class,
             .help = "give a cluster of cpus, for example --cluster 2xcpu-core"});
    }
    if (schedule.rewrites != problem.rewrites())
      findings.push_back(
          {.code = "splits",
           .message = "the schedule rewrites the graph (\"splits\"), but the cpu backend runs only the original graph",
           .help = "place it with --no-splits"});
    if (problem.cluster().has_fair_channels())
      findings.push_back({.code = "fair-links",
                          .message = "links of '" + problem.cluster().name() +
                                     "' share their bandwidth among transfers, which the cpu backend does not emulate",
                          .help = "give a cluster whose links carry one transfer at a time (sharing = \"serial\")"});
    if (!findings.empty()) throw InputError{std::move(findings)};
    return make_cpu_run(problem, workload, schedule, options_);
  }

 private:
  CpuOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) { return std::make_unique<CpuBackend>(options); }

}  // namespace trainyard
