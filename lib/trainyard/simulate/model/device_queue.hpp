#pragma once

#include <algorithm>
#include <vector>

#include "trainyard/simulate/model/dispatch_rule.hpp"

namespace trainyard::detail {

/// The ops that wait for one device, in the order of a rule; ties by (ready time, id).
template <class Rule>
class DeviceQueue {
 public:
  DeviceQueue(DeviceId device, const Rule& rule, const RunState& run) : device_(device), rule_(&rule), run_(&run) {}

  /// Adds an op that becomes ready now.
  void push(OpId op) {
    waiting_.push_back({run_->now(), op});
    if constexpr (FixedOrder<Rule>)
      std::push_heap(waiting_.begin(), waiting_.end(), behind());
    else  // by (ready, id): all others became ready at this instant or earlier
      for (auto at = waiting_.end() - 1; at != waiting_.begin() && *at < *(at - 1); --at) std::iter_swap(at, at - 1);
  }

  bool empty() const { return waiting_.empty(); }
  /// Removes and returns the op that the device is to run now; none if nothing waits or the rule holds the first op
  /// back.
  OpId take() {
    if (waiting_.empty()) return OpId::none();
    auto first = waiting_.begin();
    if constexpr (!FixedOrder<Rule>)  // the first of equal ones
      first = std::min_element(first, waiting_.end(),
                               [this](const Entry& a, const Entry& b) { return rule_->before(seen(a), seen(b)); });
    if constexpr (HoldsBack<Rule>)
      if (rule_->holds_back(seen(*first))) return OpId::none();
    const OpId op = first->op;
    if constexpr (FixedOrder<Rule>) {
      std::pop_heap(waiting_.begin(), waiting_.end(), behind());
      waiting_.pop_back();
    } else {
      waiting_.erase(first);
    }
    return op;
  }

 private:
  struct Entry {
    Nanoseconds ready;
    OpId op;

    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  Waiting seen(const Entry& entry) const { return {entry.op, device_, entry.ready, *run_}; }
  /// Comparison for std::push_heap, which keeps the greatest element in front.
  auto behind() const {
    return [this](const Entry& a, const Entry& b) {
      if (rule_->before(seen(b), seen(a))) return true;
      return !rule_->before(seen(a), seen(b)) && b < a;
    };
  }

  DeviceId device_;
  const Rule* rule_;
  const RunState* run_;
  std::vector<Entry> waiting_;
};

}  // namespace trainyard::detail
