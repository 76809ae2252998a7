#include "profiler/run/cpu/alone.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "profiler/clock.hpp"
#include "profiler/host.hpp"
#include "profiler/kernels/cpu/program.hpp"
#include "profiler/kernels/cpu/team.hpp"
#include "profiler/run/cpu/hill_climb.hpp"
#include "profiler/run/cpu/lost_time.hpp"
#include "trainyard/core/statistics.hpp"

namespace trainyard::cpu {
namespace {

/// Writes to more memory than any cache holds.
class Sweep {
 public:
  void run() {
    for (std::size_t i = 0; i < lines_.size(); i += kLine) ++lines_[i];
  }

 private:
  static constexpr std::size_t kLine = 64;
  std::vector<unsigned char> lines_ = std::vector<unsigned char>(std::size_t{128} << 20);
};

/// All tensors of a step, and its ops, each of which has run once.
class Stage {
 public:
  Stage(const Problem& problem, const Workload& workload)
      : program_(problem.graph(), *workload.recipe, workload.seed), table_(problem.graph().tensor_count(), nullptr) {
    constexpr std::size_t kAlignment = 64;
    for (const TensorId tensor : problem.graph().tensors()) {
      memory_.push_back(std::make_unique<std::byte[]>(program_.tensor_bytes(tensor) + kAlignment));
      const auto at = reinterpret_cast<std::uintptr_t>(memory_.back().get());
      table_[tensor.index()] = memory_.back().get() + (kAlignment - at % kAlignment) % kAlignment;
    }
    for (const OpId op : problem.graph().topological_order()) program_.run(op, table_.data());
  }
  AloneSample time(OpId op) {
    lost_.begin();
    const std::int64_t start = now_ns();
    program_.run(op, table_.data());
    const std::int64_t end = now_ns();
    return {op, Nanoseconds{end - start}, Nanoseconds{lost_.take()}};
  }

 private:
  Program program_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<std::byte*> table_;
  LostTime lost_;
};

void time_here(const Problem& problem, const Workload& workload, MeasureMode mode, int samples,
               std::vector<AloneSample>& result) {
  const Graph& graph = problem.graph();
  Stage stage{problem, workload};
  std::unique_ptr<Sweep> sweep;
  if (mode == MeasureMode::cold) sweep = std::make_unique<Sweep>();
  const int warm = mode == MeasureMode::hot ? 2 : 0;
  for (const OpId op : graph.ops()) {
    if (graph.type(op) == "Input") continue;
    for (int i = -warm; i < samples; ++i) {
      if (sweep) sweep->run();
      const AloneSample sample = stage.time(op);
      if (i >= 0) result.push_back(sample);
    }
  }
}

void time_threads_here(const Problem& problem, const Workload& workload, const std::vector<int>& cores, int samples,
                       std::vector<ThreadSample>& result) {
  Team team{cores};
  current_team() = &team;
  Stage stage{problem, workload};
  for (const OpId op : problem.graph().ops()) {
    if (problem.graph().type(op) == "Input") continue;
    std::map<int, std::vector<AloneSample>> taken;
    const Climb climb = hill_climb(team.size(), 0.05, [&](int threads) {
      team.use(threads);
      std::vector<double> times;
      for (int i = -2; i < samples; ++i) {
        const AloneSample sample = stage.time(op);
        if (i < 0) continue;
        taken[threads].push_back(sample);
        times.push_back(static_cast<double>(sample.time.count));
      }
      return upper_quantile_of(std::move(times));
    });
    result.push_back({op, climb.threads, std::move(taken[climb.threads]), climb.tried});
  }
  current_team() = nullptr;
}

/// Runs the work on a new thread pinned to the core, and rethrows its exception.
void on_core(int core, const std::function<void()>& work) {
  std::exception_ptr error;
  std::thread worker{[&] {
    pin_to(core);
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }};
  worker.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace

std::vector<AloneSample> time_alone(const Problem& problem, const Workload& workload, DeviceId device, MeasureMode mode,
                                    int samples) {
  std::vector<AloneSample> result;
  if (!workload.recipe) return result;
  const std::vector<int> cores = usable_cores();
  on_core(cores[device.index() % cores.size()], [&] { time_here(problem, workload, mode, samples, result); });
  return result;
}

std::vector<ThreadSample> time_threads(const Problem& problem, const Workload& workload, int most, int samples) {
  std::vector<ThreadSample> result;
  if (!workload.recipe) return result;
  std::vector<int> cores = usable_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(std::max(1, most))));
  on_core(cores[0], [&] { time_threads_here(problem, workload, cores, samples, result); });
  return result;
}

}  // namespace trainyard::cpu
