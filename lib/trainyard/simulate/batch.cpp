#include "trainyard/simulate/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"

namespace trainyard {

namespace {

/// Calls `ask`; if it throws InputError, prefixes its messages with `what` and the number.
template <class Ask>
void numbered(const char* what, std::size_t number, const Ask& ask) {
  try {
    ask();
  } catch (const InputError& error) {
    std::vector<Finding> findings = error.findings();
    for (Finding& finding : findings) finding.message = fmt::format("{} {}: {}", what, number, finding.message);
    throw InputError{std::move(findings)};
  }
}

}  // namespace

Batch::Batch(const Problem& problem, unsigned threads) {
  const std::size_t count = thread_count(threads);
  simulations_.reserve(count);
  simulations_.emplace_back(problem);
  while (simulations_.size() < count) simulations_.push_back(simulations_.front());

  for (const GroupId group : problem.groups())
    for (const OpId op : problem.group_ops(group).subspan(1)) together_.emplace_back(problem.group_ops(group)[0], op);
  if (std::ranges::find(problem.durations(), Problem::kNever) == problem.durations().end()) return;
  for (const OpId op : problem.ops())
    for (const DeviceId device : problem.devices()) can_run_.push_back(problem.can_run(op, device));
}

template <class Evaluate>
void Batch::each(std::size_t count, const Evaluate& evaluate) {
  // Threads take chunks: schedules differ in cost, and neighbouring results share cache lines.
  constexpr std::size_t kChunk = 8;
  const std::size_t chunks = (count + kChunk - 1) / kChunk;
  const std::size_t workers = std::min(simulations_.size(), chunks);
  parallel_for(static_cast<unsigned>(workers), chunks, [&](std::size_t chunk, unsigned thread) {
    const std::size_t last = std::min((chunk + 1) * kChunk, count);
    for (std::size_t i = chunk * kChunk; i < last; ++i) evaluate(simulations_[thread], i, thread);
  });
}

template <class Evaluate>
void Batch::each_checked(std::span<const Schedule> schedules, const Evaluate& evaluate) {
  each(schedules.size(), [&](Simulation& simulation, std::size_t i, unsigned) {
    numbered("schedule", i, [&] {
      check_sizes(problem(), schedules[i]);
      if (!is_valid(schedules[i].placement)) check_schedule(problem(), schedules[i]);
      evaluate(simulation, i);
    });
  });
}

std::vector<Nanoseconds> Batch::makespans(std::span<const Schedule> schedules) {
  std::vector<Nanoseconds> results(schedules.size());
  each_checked(schedules,
               [&](Simulation& simulation, std::size_t i) { results[i] = simulation.makespan(schedules[i]); });
  return results;
}

std::vector<MemoryPeaks> Batch::peaks(std::span<const Schedule> schedules) {
  std::vector<MemoryPeaks> results(schedules.size());
  each_checked(schedules, [&](Simulation& simulation, std::size_t i) { results[i] = simulation.peaks(schedules[i]); });
  return results;
}

bool Batch::is_valid(const Placement& placement) const {
  const std::size_t devices = problem().device_count();
  bool valid = true;  // without a branch per op, because placements are usually valid
  for (const DeviceId device : placement) valid &= device.index() < devices;
  if (!valid) return false;
  if (!can_run_.empty())
    for (const OpId op : placement.ids()) valid &= can_run_[op.index() * devices + placement[op].index()] != 0;
  for (const auto& [op, other] : together_) valid &= placement[op] == placement[other];
  return valid;
}

void Batch::makespans(std::span<const std::int32_t> placements, const IdMap<OpId, double>& priority,
                      std::span<Nanoseconds> results) {
  const std::size_t ops = problem().op_count();
  if (placements.size() != results.size() * ops)
    refuse("size",
           fmt::format("{} rows of {} ops need {} devices, but {} are given", results.size(), ops, results.size() * ops,
                       placements.size()),
           "give one row of device indices for each result");
  if (!priority.empty() && priority.size() != ops)
    refuse("size", fmt::format("there are {} priorities for {} ops", priority.size(), ops),
           "give a priority to every op, or to none");
  if (!std::ranges::all_of(priority, [](double each) { return std::isfinite(each); }))
    refuse("not-a-number", "a priority is not a finite number", "give a finite number; a higher one is more urgent");
  Schedule common{.placement = Placement(ops), .policy = priority.empty() ? Policy::fifo : Policy::priority};
  common.priority = priority;
  std::vector<Schedule> schedules(simulations_.size(), common);
  each(results.size(), [&](Simulation& simulation, std::size_t row, unsigned thread) {
    Schedule& schedule = schedules[thread];
    const auto first = placements.begin() + static_cast<std::ptrdiff_t>(row * ops);
    std::transform(first, first + static_cast<std::ptrdiff_t>(ops), schedule.placement.begin(),
                   [](std::int32_t device) { return DeviceId{static_cast<std::size_t>(device)}; });
    numbered("row", row, [&] {
      if (!is_valid(schedule.placement)) {
        for (DeviceId& device : schedule.placement)  // negative numbers name no device
          if (device.index() > std::numeric_limits<std::int32_t>::max()) device = DeviceId::none();
        check_schedule(problem(), schedule);
      }
      results[row] = simulation.makespan(schedule);
    });
  });
}

}  // namespace trainyard
