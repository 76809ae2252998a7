#include "profiler/run/recorded/recorded_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "profiler/run/memory_of_trace.hpp"
#include "profiler/torch/recipe_file.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

/// Idle time of each device before ops that were ready when the previous op ended.
IdMap<DeviceId, GapSum> gaps_of(const Problem& problem, const Placement& placement, const StepTrace& trace) {
  const Graph& graph = problem.graph();
  std::map<std::pair<TensorId, DeviceId>, Nanoseconds> arrived;
  for (const Transfer& transfer : trace.transfers) arrived[{transfer.tensor, transfer.to}] = transfer.end;
  const auto ready = [&](OpId op) {
    Nanoseconds at{0};
    for (const TensorId tensor : graph.inputs(op)) {
      const auto sent = arrived.find({tensor, placement[op]});
      at = std::max(at, sent == arrived.end() ? trace.ops[graph.producer(tensor)].end : sent->second);
    }
    for (const OpId before : graph.after(op)) at = std::max(at, trace.ops[before].end);
    return at;
  };
  IdMap<DeviceId, GapSum> gaps(problem.device_count());
  for (const DeviceId device : problem.devices())
    for (std::size_t i = 1; i < trace.order[device].size(); ++i) {
      const Nanoseconds end = trace.ops[trace.order[device][i - 1]].end;
      const OpId next = trace.order[device][i];
      if (ready(next) > end || trace.ops[next].start < end) continue;
      gaps[device].sum += trace.ops[next].start - end;
      ++gaps[device].count;
    }
  return gaps;
}

class RecordedPlayback : public PreparedRun {
 public:
  RecordedPlayback(const Problem& problem, const Schedule& schedule, const RecordedRun& run) : run_(run) {
    for (const RecordedStep& step : run.steps) steps_.push_back(trace_of(problem, schedule.placement, step));
  }

  const StepTrace& step() override {
    const StepTrace& trace = steps_[next_];
    next_ = (next_ + 1) % steps_.size();
    return trace;
  }
  std::optional<Nanoseconds> plain_step() override {
    return plain_ < run_.plain.size() ? std::optional{run_.plain[plain_++]} : std::nullopt;
  }
  void reset() override { next_ = plain_ = 0; }
  std::uint64_t parameter_checksum() const override { return 0; }
  std::optional<bool> outputs_agree() const override { return run_.outputs_agree; }

 private:
  StepTrace trace_of(const Problem& problem, const Placement& placement, const RecordedStep& step) const {
    const Graph& graph = problem.graph();
    StepTrace trace;
    trace.makespan = step.makespan;
    trace.ops = step.ops;
    for (std::size_t i = 0; i < run_.transfers.size(); ++i) {
      const auto& [tensor, from, to] = run_.transfers[i];
      trace.transfers.push_back({.tensor = tensor,
                                 .from = from,
                                 .to = to,
                                 .bytes = graph.bytes(tensor),
                                 .ready = step.ops[graph.producer(tensor)].end,
                                 .start = step.transfers[i].start,
                                 .end = step.transfers[i].end});
    }
    std::ranges::sort(trace.transfers, {}, [&](const Transfer& each) {
      return std::tuple{graph.producer(each.tensor), each.tensor, each.to};
    });
    trace.order = IdMap<DeviceId, std::vector<OpId>>(problem.device_count());
    for (const OpId op : graph.topological_order())
      if (step.ops[op].start != step.ops[op].end) trace.order[placement[op]].push_back(op);
    for (auto& order : trace.order)
      std::ranges::stable_sort(order, {}, [&](OpId op) { return std::pair{step.ops[op].start, step.ops[op].end}; });
    trace.peak = peaks_of(problem, placement, trace.ops, trace.transfers);
    trace.allocated = run_.allocated;
    trace.gaps = gaps_of(problem, placement, trace);
    trace.clock_skew = run_.clock_skew;
    trace.contaminated = step.dropped;
    trace.times_launches = step.dropped == "launches";
    trace.loss = run_.loss;
    return trace;
  }

  const RecordedRun& run_;
  std::vector<StepTrace> steps_;
  std::size_t next_ = 0, plain_ = 0;
};

class RecordedBackend : public Backend {
 public:
  explicit RecordedBackend(const RecordedRuns& runs) : runs_(runs) {}
  std::string name() const override { return "recorded"; }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload&, const Schedule& schedule) override {
    const std::string key = schedule_key(problem, schedule);
    const auto run = std::ranges::find(runs_.runs, key, &RecordedRun::key);
    if (run == runs_.runs.end()) {
      std::string names;
      for (const RecordedRun& each : runs_.runs) names += (names.empty() ? "" : ", ") + each.name;
      refuse("no-recorded-run", fmt::format("no recorded run has the schedule with the key {}", key),
             names.empty() ? "the file has no runs: export the recipe with this schedule, and execute it"
                           : fmt::format("the file has runs of: {}; export the recipe with this "
                                         "schedule, and execute it",
                                         names));
    }
    return std::make_unique<RecordedPlayback>(problem, schedule, *run);
  }

 private:
  const RecordedRuns& runs_;
};

}  // namespace

std::unique_ptr<Backend> make_recorded_backend(const RecordedRuns& runs) {
  return std::make_unique<RecordedBackend>(runs);
}

}  // namespace trainyard
