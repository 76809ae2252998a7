#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

/// The peak of every device, from what a run recorded: the rules of simulate/memory.hpp without the holdings
/// themselves.
///
/// Every holding becomes a taking and a letting-go, of which those at one op's start and those at one op's end count as
/// one each. The ops of a device run one after the other, so that theirs need no sorting; what is left, takings at a
/// transfer's start, letting-go at its end, and all of ops that take no time, is sorted by time and merged with them,
/// letting-go before taking at one instant: O(ops + edges) where times are spread evenly, with a logarithm more where
/// they are not.
class PeakFinder {
 public:
  void find(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record,
            Nanoseconds makespan, MemoryPeaks& peaks);

 private:
  /// `when`: the time, doubled, and one more where bytes are taken.
  struct Change {
    std::uint64_t when;
    std::uint64_t where;  // device << kByteBits | bytes
  };
  static constexpr unsigned kByteBits = 44;
  static constexpr std::int64_t kMostBytes = (std::int64_t{1} << kByteBits) - 1;  // more is added in several

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
  void find_changes(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record,
                    Nanoseconds makespan);
  void find_arrivals(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record,
                     TensorId tensor);
  void sort(std::size_t devices);
  void line_up(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record);

  struct LastUse {
    std::int64_t end;
    std::uint32_t tensor, op;
  };
  /// Of one op: bytes taken at its start, bytes let go at its end.
  struct OpChange {
    std::int64_t taken, freed;
  };
  /// What a device holds.
  struct Line {
    std::int64_t held, peak;
    std::uint64_t peak_when;
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  Line walked(Line line, std::span<const std::uint32_t> ops, std::span<const Change> changes, const Span* spans);

  std::vector<LastUse> last_use_;         // by device, of the tensor at hand
  std::vector<OpChange> op_changes_;      // by op id
  std::vector<Change> changes_, sorted_;  // room for all
  std::size_t count_ = 0;                 // of changes_
  std::vector<std::uint32_t> first_, ops_end_;
  std::vector<std::size_t> ends_;       // by device, in changes_
  std::vector<Line> lines_;             // by device
  std::vector<std::uint32_t> started_;  // as the record's, where it has none
  std::vector<std::uint32_t> in_line_;  // ops that take time, by device, by start
};

}  // namespace trainyard::detail
