#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "trainyard/core/id.hpp"

namespace trainyard {

/// One action of an executor, in the order in which they take effect.
struct Action {
  enum class Kind : std::uint8_t {
    allocate,        // memory for `tensor` on `device`
    free,            // releases it
    begin_op,        // `op` on `device`: reads its inputs, writes its outputs
    end_op,          // `op` is done
    begin_transfer,  // of `tensor` from `device` to `to`
    end_transfer,    // `tensor` has arrived
  };
  Kind kind;
  OpId op = OpId::none();
  TensorId tensor = TensorId::none();
  DeviceId device = DeviceId::none(), to = DeviceId::none();

  friend bool operator==(const Action&, const Action&) = default;
};

/// Thread-safe log of an executor's actions in a step.
class ActionLog {
 public:
  void add(const Action& action) {
    const std::lock_guard lock{busy_};
    actions_.push_back(action);
  }
  void clear() { actions_.clear(); }
  /// Only while no thread adds.
  const std::vector<Action>& actions() const { return actions_; }

 private:
  std::mutex busy_;
  std::vector<Action> actions_;
};

}  // namespace trainyard
