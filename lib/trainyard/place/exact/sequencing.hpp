#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainyard/place/exact/model.hpp"
#include "trainyard/place/exact/one_machine.hpp"
#include "trainyard/place/exact/tasks.hpp"

namespace trainyard::detail {

/// State shared by the outer and inner search of one branch and bound.
struct SearchState {
  std::int64_t limit = 0;  // only schedules below it are looked for
  std::uint64_t nodes = 0, most_nodes = 0;
  std::function<bool()> stop = {};
  std::uint64_t asked_every = 256;  // nodes between two polls of stop
  bool stopped = false;

  /// Counts a node; returns false if the search has to end.
  bool enter() {
    if (stopped) return false;
    if (++nodes > most_nodes || (nodes % asked_every == 0 && stop && stop())) stopped = true;
    return !stopped;
  }
};

/// Inner search of branch_and_bound, over the orders of the tasks of one placement.
class Sequencing {
 public:
  Sequencing(const ExactModel& model, SearchState& state) : model_(model), state_(state) {}

  /// Calls `found(start of each task, makespan)` for every active schedule below the limit, which `found` may lower.
  /// Returns false if the search was stopped early.
  using Found = std::function<void(const std::vector<std::int64_t>&, std::int64_t)>;
  bool search(const Tasks& tasks, const Found& found);

  /// Lower bound on the makespan of any order of the tasks.
  std::int64_t bound(const Tasks& tasks);

 private:
  using Key = std::array<std::uint64_t, 4>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  void reset(const Tasks& tasks);
  void descend();
  /// Starts the task as early as possible, then the tasks without duration that become ready. Undone by `restore`.
  void schedule(std::uint32_t task);
  void finish(std::uint32_t task, std::int64_t start);
  std::int64_t earliest(std::uint32_t task) const;
  std::int64_t node_bound();
  bool dominated();

  struct Change {
    std::int64_t* where;
    std::int64_t before;
  };
  void set(std::int64_t& where, std::int64_t value) {
    changes_.push_back({&where, where});
    where = value;
  }
  void restore(std::size_t changes, std::size_t done);

  const ExactModel& model_;
  SearchState& state_;
  const Tasks* tasks_ = nullptr;
  const Found* found_ = nullptr;
  std::vector<std::int64_t> ready_, start_;  // of a task; start -1: not scheduled
  std::vector<std::int64_t> free_;           // of a resource
  std::vector<std::uint32_t> waits_;
  std::vector<std::uint32_t> done_;  // in the order of scheduling
  std::int64_t makespan_ = 0;
  Key scheduled_{};
  std::vector<Change> changes_;
  // Workspace.
  std::vector<std::int64_t> heads_;
  std::vector<std::vector<MachineJob>> jobs_;
  std::vector<std::pair<std::int64_t, std::int64_t>> waiting_;
  std::unordered_map<Key, std::vector<std::vector<std::int64_t>>, KeyHash> seen_;
  std::size_t seen_count_ = 0;
};

}  // namespace trainyard::detail
