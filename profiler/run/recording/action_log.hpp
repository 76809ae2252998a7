#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "trainyard/core/id.hpp"

namespace trainyard {

/// One thing that an executor did, in the order in which it took effect.
struct Action {
  enum class Kind : std::uint8_t {
    allocate,        // memory for `tensor` on `device`
    free,            // and gives it back
    begin_op,        // `op` on `device`: reads its inputs, writes its outputs
    end_op,          //
    begin_transfer,  // of `tensor` from `device` to `to`
    end_transfer,    // it is there
  };
  Kind kind;
  OpId op = OpId::none();
  TensorId tensor = TensorId::none();
  DeviceId device = DeviceId::none(), to = DeviceId::none();

  friend bool operator==(const Action&, const Action&) = default;
};

/// Actions of an executor's threads during a step.
class ActionLog {
 public:
  void add(const Action& action) {
    const std::lock_guard lock{busy_};
    actions_.push_back(action);
  }
  void clear() { actions_.clear(); }
  /// While nothing is added.
  const std::vector<Action>& actions() const { return actions_; }

 private:
  std::mutex busy_;
  std::vector<Action> actions_;
};

}  // namespace trainyard
