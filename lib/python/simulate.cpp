#include "trainyard/simulate/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <span>
#include <stdexcept>

#include "bindings.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/batch.hpp"
#include "trainyard/simulate/delta.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::python {
namespace {

/// Runs without the GIL. `schedule` is a copy, since the arrays of the Python object may be written meanwhile.
Result simulated(const Problem& problem, Schedule schedule) {
  const py::gil_scoped_release release;
  Problem scheduled = scheduled_problem(problem, schedule);
  Timeline timeline = simulate(scheduled, schedule);
  return {std::move(scheduled), std::move(schedule), std::move(timeline)};
}

/// Throws InputError unless the schedule is a valid one of the problem's own graph.
void check_own(const Problem& problem, const Schedule& schedule) {
  if (!schedule.rewrites.empty() && schedule.rewrites != problem.rewrites())
    refuse("other-rewrites", "the schedule is for a graph that its placer rewrote",
           "use simulate(problem, schedule).problem, the problem of that graph");
  check_schedule(problem, schedule);
}

/// A workspace that Python threads use in turn.
template <class T>
struct Shared {
  template <class... Arguments>
  explicit Shared(const Problem& problem, Arguments&&... arguments)
      : value(problem, std::forward<Arguments>(arguments)...) {}

  std::mutex mutex;
  T value;
};
using SharedSimulation = Shared<Simulation>;
using SharedBatch = Shared<Batch>;

template <class Work>
auto alone(SharedSimulation& shared, Schedule schedule, const Work& work) {
  const py::gil_scoped_release release;
  const std::lock_guard lock{shared.mutex};
  check_own(shared.value.problem(), schedule);
  return work(shared.value, schedule);
}

py::dict peaks_of(SharedSimulation& shared, const Schedule& schedule) {
  const MemoryPeaks peaks =
      alone(shared, schedule, [](Simulation& simulation, const Schedule& s) { return simulation.peaks(s); });
  py::dict result;
  result["makespan_ns"] = peaks.makespan.count;
  result["fits"] = peaks.fits;
  result["peak_bytes"] = array_of<std::int64_t>(peaks.peak.ids(), [&](DeviceId d) { return peaks.peak[d].count; });
  result["peak_at_ns"] =
      array_of<std::int64_t>(peaks.peak_at.ids(), [&](DeviceId d) { return peaks.peak_at[d].count; });
  return result;
}

/// Number of rows per call: some million op runs, so that Ctrl-C takes effect within a fraction of a second.
std::size_t rows_at_once(std::size_t ops) {
  constexpr std::size_t kRuns = 1 << 22;
  return std::max<std::size_t>(64, kRuns / std::max<std::size_t>(ops, 1));
}

py::array_t<std::int64_t> batch_makespans(SharedBatch& shared, const py::object& placements,
                                          const std::optional<Reals>& priority) {
  const Devices rows = device_indices(placements, "placements");
  const std::size_t ops = shared.value.problem().op_count();
  if (rows.ndim() != 2 || static_cast<std::size_t>(rows.shape(1)) != ops)
    refuse("size", fmt::format("placements has {} dimensions and {} values", rows.ndim(), rows.size()),
           fmt::format("give an array of n rows of {} device indices", ops));
  IdMap<OpId, double> priorities;
  if (priority)
    priorities = IdMap<OpId, double>{std::vector<double>(priority->data(), priority->data() + priority->size())};
  const auto count = static_cast<std::size_t>(rows.shape(0));
  py::array_t<std::int64_t> results(rows.shape(0));
  static_assert(sizeof(Nanoseconds) == sizeof(std::int64_t));
  const std::int32_t* next = rows.data();
  auto* out = reinterpret_cast<Nanoseconds*>(results.mutable_data());
  for (std::size_t first = 0, some = 0; first < count; first += some) {
    some = std::min(rows_at_once(ops), count - first);
    {
      const py::gil_scoped_release release;
      const std::lock_guard lock{shared.mutex};
      try {
        shared.value.makespans({next + first * ops, some * ops}, priorities, {out + first, some});
      } catch (const InputError& error) {
        if (first == 0) throw;
        std::vector<Finding> findings = error.findings();
        for (Finding& finding : findings) finding.message += fmt::format(" (counted from row {})", first);
        throw InputError{std::move(findings)};
      }
    }
    InterruptWatch::raise();
  }
  return results;
}

/// A DeltaSimulation that checks its preconditions.
class CheckedDelta {
 public:
  CheckedDelta(const Problem& problem, const Schedule& schedule) : run_(checked(problem, schedule)) {}

  DeltaResult try_move(std::int64_t index, std::int64_t to, std::optional<std::int64_t> limit) {
    const auto ops = problem().group_ops(problem().group(op_at(problem(), index)));
    const DeviceId device = able(ops, to);
    return changed([&] { return run_.try_move(ops, device, limit_of(limit)); });
  }
  DeltaResult try_place(std::int64_t index, std::int64_t to, std::optional<std::int64_t> behind,
                        std::optional<std::int64_t> limit) {
    const OpId op = op_at(problem(), index);
    const auto ops = problem().group_ops(problem().group(op));
    const DeviceId device = able(ops, to);
    strict("try_place");
    if (ops.size() > 1 && run_.schedule().placement[op] != device)
      refuse("colocation", fmt::format("op {} would leave its colocation group", index),
             "use try_move(), which moves the whole group");
    std::optional<OpId> before;
    if (behind) before = op_at(problem(), *behind);
    if (before && (*before == op || run_.schedule().placement[*before] != device))
      refuse("order", fmt::format("op {} is not another op of device {}", *behind, to),
             "name another op that is placed there, or None");
    return changed([&] { return run_.try_move(op, device, before, limit_of(limit)); });
  }
  DeltaResult try_swap(std::int64_t a, std::int64_t b, std::optional<std::int64_t> limit) {
    const OpId first = op_at(problem(), a), second = op_at(problem(), b);
    strict("try_swap");
    if (first == second || run_.schedule().placement[first] != run_.schedule().placement[second])
      refuse("order", fmt::format("ops {} and {} are not two ops of one device", a, b), "swap ops that share a device");
    return changed([&] { return run_.try_swap(first, second, limit_of(limit)); });
  }
  DeltaResult try_priority(std::int64_t index, double priority, std::optional<std::int64_t> limit) {
    const OpId op = op_at(problem(), index);
    if (!std::isfinite(priority))
      refuse("not-a-number", "the priority is not a finite number", "give a number; a higher one is more urgent");
    return changed([&] { return run_.try_priority(op, priority, limit_of(limit)); });
  }
  void accept() {
    settle();
    run_.accept();
  }
  void reject() {
    settle();
    run_.reject();
  }
  Schedule schedule() { return run_.schedule(); }
  std::int64_t makespan() const { return run_.makespan().count; }
  const Problem& problem() const { return run_.problem(); }
  Result result() { return {run_.problem(), run_.schedule(), run_.timeline()}; }

 private:
  static DeltaSimulation checked(const Problem& problem, const Schedule& schedule) {
    check_own(problem, schedule);
    return DeltaSimulation{problem, schedule};
  }
  static Nanoseconds limit_of(std::optional<std::int64_t> limit) {
    return limit ? Nanoseconds{*limit} : DeltaSimulation::kNoLimit;
  }
  DeviceId able(std::span<const OpId> ops, std::int64_t to) const {
    const DeviceId device = device_at(problem(), to);
    for (const OpId op : ops)
      if (!problem().can_run(op, device))
        refuse("no-device", fmt::format("device {} cannot run op {}", to, op.index()),
               "choose a device on which durations_ns is not -1");
    return device;
  }
  void strict(const char* what) {
    if (run_.schedule().policy != Policy::strict)
      refuse("policy", fmt::format("{} needs policy strict", what), "give the schedule an order");
  }
  template <class Change>
  DeltaResult changed(const Change& change) {
    if (pending_) throw std::runtime_error("a change is pending: accept() or reject() it before the next one");
    const DeltaResult result = change();
    pending_ = result.complete();
    return result;
  }
  void settle() {
    if (!pending_) throw std::runtime_error("no change is pending: only a complete change can be accepted or rejected");
    pending_ = false;
  }

  DeltaSimulation run_;
  bool pending_ = false;
};

void bind_simulations(py::module_& module) {
  py::class_<SharedSimulation>(module, "Simulation",
                               "simulate() for many schedules of one problem: prepares the problem "
                               "once. Threads may share it, and take turns.")
      .def(py::init<const Problem&>(), py::arg("problem"), py::call_guard<py::gil_scoped_release>())
      .def(
          "makespan_ns",
          [](SharedSimulation& shared, const Schedule& schedule) {
            return alone(shared, schedule, [](Simulation& s, const Schedule& own) { return s.makespan(own).count; });
          },
          py::arg("schedule"), "The step time in ns.")
      .def("peaks", &peaks_of, py::arg("schedule"),
           "makespan_ns, fits, and int64[devices] peak_bytes and peak_at_ns, by name.")
      .def(
          "timeline",
          [](SharedSimulation& shared, const Schedule& schedule) {
            return alone(shared, schedule, [](Simulation& s, const Schedule& own) {
              return Result{s.problem(), own, s.timeline(own)};
            });
          },
          py::arg("schedule"));
  py::class_<SharedBatch>(module, "Batch",
                          "Evaluates many placements of one problem on several threads, without the GIL. "
                          "The results are the same for any number of threads.")
      .def(py::init<const Problem&, unsigned>(), py::arg("problem"), py::arg("threads") = 0,
           py::call_guard<py::gil_scoped_release>(), "threads 0: one per core.")
      .def("makespans", &batch_makespans, py::arg("placements"), py::arg("priority") = py::none(),
           "int64[n]: the step time in ns of each row of `placements`, int32[n, ops] (other integer types are "
           "converted).\n\n"
           "Policy fifo; with `priority`, float[ops], policy priority. A row that is not a placement of the problem "
           "raises\n"
           "InputError with its number.");
}

void bind_delta(py::module_& module) {
  py::class_<DeltaResult>(module, "DeltaResult", "The outcome of a change of a schedule.")
      .def_property_readonly("complete", &DeltaResult::complete,
                             "Whether the change is applied, and makespan_ns exact.")
      .def_property_readonly("deadlock",
                             [](const DeltaResult& r) { return r.outcome == DeltaResult::Outcome::deadlock; })
      .def_property_readonly(
          "makespan_ns", [](const DeltaResult& r) { return r.makespan.count; },
          "The exact step time if complete, else a lower bound.");
  const auto limit = py::arg("limit_ns") = py::none();
  py::class_<CheckedDelta>(
      module, "DeltaSimulation",
      "Incremental simulation: the step time after a small change of a schedule, bit for bit as from "
      "simulate(). A complete change must be accepted or rejected before the next one.")
      .def(py::init<const Problem&, const Schedule&>(), py::arg("problem"), py::arg("schedule"))
      .def_property_readonly("makespan_ns", &CheckedDelta::makespan)
      .def_property_readonly("schedule", &CheckedDelta::schedule, "A copy, with the pending change applied.")
      .def("timeline", &CheckedDelta::result)
      .def("try_move", &CheckedDelta::try_move, py::arg("op"), py::arg("device"), limit,
           "Moves the op, and all of its colocation group, to the device.")
      .def("try_place", &CheckedDelta::try_place, py::arg("op"), py::arg("device"), py::arg("behind"), limit,
           "Policy strict: puts the op directly after the op `behind` in the order of the device; None: first.")
      .def("try_swap", &CheckedDelta::try_swap, py::arg("a"), py::arg("b"), limit,
           "Policy strict: swaps two ops of one device in its order.")
      .def("try_priority", &CheckedDelta::try_priority, py::arg("op"), py::arg("priority"), limit)
      .def("accept", &CheckedDelta::accept)
      .def("reject", &CheckedDelta::reject);
}

}  // namespace

void bind_simulate(py::module_& module) {
  module.def("simulate", &simulated, py::arg("problem"), py::arg("schedule"),
             "Simulates the schedule and returns its Timeline; if it has rewrites, that of the rewritten graph.");
  bind_simulations(module);
  bind_delta(module);
}

}  // namespace trainyard::python
