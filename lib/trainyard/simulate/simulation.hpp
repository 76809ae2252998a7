#pragma once

#include <memory>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

namespace detail {
struct DenseProblem;
}

/// The makespan and memory peaks of simulate(), without the timeline.
struct MemoryPeaks {
  Nanoseconds makespan;
  IdMap<DeviceId, Bytes> peak;
  IdMap<DeviceId, Nanoseconds> peak_at;  // first time at which the peak is reached
  bool fits = true;                      // no peak exceeds its device's capacity
};

/// simulate() for searches that try many schedules of one problem, with the same rules and results. The problem is
/// prepared once, and after the first run of a kind nothing is allocated (except on clusters with fair channels). Use
/// one object per thread; a copy shares the prepared problem and has its own workspace.
///
/// Schedules must have passed check_schedule() and have the problem's rewrites (scheduled_problem). Before a run only
/// their sizes are checked again (check_sizes(): InputError "size"); a run that deadlocks or takes no time is checked
/// in full afterwards. So an op on a device that cannot run it shortens the run without an error if other ops take
/// time. Device ids outside the cluster are not detected (undefined behaviour).
class Simulation {
 public:
  explicit Simulation(const Problem& problem);
  Simulation(const Simulation& other);
  Simulation& operator=(const Simulation& other);
  Simulation(Simulation&&) noexcept;
  Simulation& operator=(Simulation&&) noexcept;
  ~Simulation();

  const Problem& problem() const;

  Nanoseconds makespan(const Schedule& schedule);
  /// The makespan with these op times, by op id, in place of the problem's. Throws InputError: "size", "range" (a
  /// negative time), "too-large" (the times and the problem's horizon add up to more than kLongestTime).
  Nanoseconds makespan(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations);
  /// Valid until the next call.
  const MemoryPeaks& peaks(const Schedule& schedule);
  /// Start and end of each op in the last run of peaks() or timeline(); valid until the next call.
  const IdMap<OpId, Span>& spans() const;
  Timeline timeline(const Schedule& schedule);
  Timeline timeline(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations);

 private:
  struct State;
  void check_durations(const IdMap<OpId, Nanoseconds>& durations) const;
  Nanoseconds run(const Schedule& schedule, const Nanoseconds* durations, bool record);
  const MemoryPeaks& recorded_peaks(const Schedule& schedule, const Nanoseconds* durations);

  std::shared_ptr<const detail::DenseProblem> problem_;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
