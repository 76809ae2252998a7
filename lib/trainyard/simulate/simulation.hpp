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

/// The makespan and the memory peaks that simulate() gives, without the timeline.
struct MemoryPeaks {
  Nanoseconds makespan;
  IdMap<DeviceId, Bytes> peak;
  IdMap<DeviceId, Nanoseconds> peak_at;  // the first time that it is reached
  bool fits = true;                      // no peak is above its device's capacity
};

/// simulate() for searches that try many schedules of one problem: the same rules and results, but the problem is
/// prepared once, and after the first run of a kind nothing more is allocated (except where the cluster has fair
/// channels). One per thread; a copy shares the prepared problem and has a workspace of its own.
///
/// Schedules must have passed check_schedule, and have the problem's rewrites (scheduled_problem): before a run their
/// sizes alone are checked again here (check_sizes: InputError "size"), and after one that never ends, or takes no
/// time, the whole of it. So ops on devices that cannot run them make a run too short, where others take time; devices
/// that the cluster does not have are looked up all the same.
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
  /// negative time), "too-large" (they add up to more than kLongestTime, with the problem's horizon).
  Nanoseconds makespan(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations);
  /// Valid until the next call.
  const MemoryPeaks& peaks(const Schedule& schedule);
  /// The start and end of each op in the run of the last peaks() or timeline(); valid until the next call.
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
