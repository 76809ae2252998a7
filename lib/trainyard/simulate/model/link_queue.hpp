#pragma once

#include <algorithm>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// The transfers that wait for one serial channel: by descending urgency, then by (ready time, id).
class LinkQueue {
 public:
  struct Entry {
    double urgency;
    Nanoseconds ready;
    TransferId transfer;
  };

  bool empty() const { return waiting_.empty(); }
  TransferId first() const { return waiting_.front().transfer; }
  void push(const Entry& entry) {
    waiting_.push_back(entry);
    std::push_heap(waiting_.begin(), waiting_.end(), behind);
  }
  void pop() {
    std::pop_heap(waiting_.begin(), waiting_.end(), behind);
    waiting_.pop_back();
  }

 private:
  static bool behind(const Entry& a, const Entry& b) {
    if (a.urgency != b.urgency) return a.urgency < b.urgency;
    return a.ready != b.ready ? a.ready > b.ready : a.transfer > b.transfer;
  }

  std::vector<Entry> waiting_;
};

}  // namespace trainyard::detail
