#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/record.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::detail {

/// Memory peak of every device, computed from the record of a run by the rules of simulate(), without a list of
/// holdings.
///
/// Every holding becomes an allocation and a release. All allocations at an op's start are added up, and all releases
/// at its end. The ops of a device run one after another, so they need no sorting. The other changes (allocations at a
/// transfer's start, releases at its end, and both for ops of zero duration) are sorted by time and merged with them,
/// with releases before allocations at one instant. O(ops + edges) if times are spread evenly, otherwise up to a
/// logarithmic factor more.
class PeakFinder {
 public:
  void find(const DenseProblem& problem, const Placement& placement, const Record& record, Nanoseconds makespan,
            MemoryPeaks& peaks);

 private:
  /// `when`: twice the time, plus one for an allocation.
  struct Change {
    std::uint64_t when;
    std::uint64_t where;  // device << kByteBits | bytes
  };
  static constexpr unsigned kByteBits = 44;
  static constexpr std::int64_t kMostBytes = (std::int64_t{1} << kByteBits) - 1;  // larger amounts are split

  static Change change(std::int64_t at, bool taken, std::size_t device, std::int64_t bytes) {
    return {static_cast<std::uint64_t>(at) << 1 | (taken ? 1U : 0U),
            static_cast<std::uint64_t>(device) << kByteBits | static_cast<std::uint64_t>(bytes)};
  }
  static std::int64_t delta_of(const Change& change) {
    const auto bytes = static_cast<std::int64_t>(change.where & static_cast<std::uint64_t>(kMostBytes));
    return (change.when & 1) != 0 ? bytes : -bytes;
  }
  void add(std::int64_t at, bool taken, std::size_t device, std::int64_t bytes);
  std::span<const Change> found() const { return {changes_.data(), count_}; }
  void find_changes(const DenseProblem& problem, const Placement& placement, const Record& record,
                    Nanoseconds makespan);
  void find_parts(const DenseProblem& problem, const Placement& placement, const Record& record);
  void find_arrivals(const DenseProblem& problem, const Placement& placement, const Record& record, TensorId tensor);
  void sort(std::size_t devices);
  void line_up(const DenseProblem& problem, const Placement& placement, const Record& record);

  struct LastUse {
    std::int64_t end;
    TensorId tensor;
    std::uint32_t op;
  };
  /// Bytes allocated at the op's start and released at its end.
  struct OpChange {
    std::int64_t taken, freed;
  };
  /// Bytes held on a device.
  struct Line {
    std::int64_t held, peak;
    std::uint64_t peak_when;
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  Line walked(Line line, std::span<const OpId> ops, std::span<const Change> changes, const Span* spans);

  IdMap<OpId, Nanoseconds> held_from_;    // start of the collective by member; empty if there are no collectives
  std::vector<LastUse> last_use_;         // of the current tensor, by device
  std::vector<OpChange> op_changes_;      // by op id
  std::vector<Change> changes_, sorted_;  // size is an upper bound
  std::size_t count_ = 0;                 // number of entries used in changes_
  std::vector<std::uint32_t> first_, ops_end_;
  std::vector<std::size_t> ends_;  // end of each device's entries in changes_
  std::vector<Line> lines_;        // by device
  std::vector<OpId> started_;      // replaces the record's list if that is missing
  std::vector<OpId> in_line_;      // ops that take time, by device, then by start
};

}  // namespace trainyard::detail
