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

/// What simulate() says of one schedule, without the timeline.
struct MemoryPeaks {
  Nanoseconds makespan;
  IdMap<DeviceId, Bytes> peak;
  IdMap<DeviceId, Nanoseconds> peak_at;  // the first time that it is reached
  bool fits = true;                      // no peak is above its device's capacity
};

/// simulate() for searches that try many schedules of one problem: it prepares the problem once, and after the first
/// run of a kind it allocates nothing more (it does where the cluster has fair channels). Same rules, same results. One
/// per thread; a copy shares the prepared problem and has a workspace of its own.
///
/// Schedules must have passed check_schedule, and have the problem's splits (scheduled_problem): nothing is checked
/// again here.
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
  /// With these op times in place of the problem's, by op id: what a run with other op times would take.
  Nanoseconds makespan(const Schedule& schedule, const IdMap<OpId, Nanoseconds>& durations);
  /// Valid until the next call.
  const MemoryPeaks& peaks(const Schedule& schedule);
  /// When each op ran, of the last peaks() or timeline(); valid until the next call.
  const IdMap<OpId, Span>& spans() const;
  Timeline timeline(const Schedule& schedule);

 private:
  struct State;
  Nanoseconds run(const Schedule& schedule, const Nanoseconds* durations, bool record);

  std::shared_ptr<const detail::DenseProblem> problem_;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
