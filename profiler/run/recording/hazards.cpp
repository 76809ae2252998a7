#include "profiler/run/recording/hazards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainyard {
namespace {

/// Checks a step action by action.
class Checker {
 public:
  Checker(const Problem& problem, const Schedule& schedule)
      : problem_(problem), schedule_(schedule), places_(graph_.tensor_count() * problem.device_count()) {}

  void take(const Action& action) {
    switch (action.kind) {
      case Action::Kind::allocate:
        return allocate(action.tensor, action.device);
      case Action::Kind::free:
        return free(action.tensor, action.device);
      case Action::Kind::begin_op:
        return begin_op(action.op, action.device);
      case Action::Kind::end_op:
        return end_op(action.op, action.device);
      case Action::Kind::begin_transfer:
        return begin_transfer(action.tensor, action.device, action.to);
      case Action::Kind::end_transfer:
        return end_transfer(action.tensor, action.device, action.to);
    }
  }

  std::vector<std::string> finish() {
    for (const OpId op : graph_.ops())
      if (runs_[op] != Run::ended) say("'{}' {}", graph_.name(op), runs_[op] == Run::no ? "never ran" : "never ended");
    for (const TensorId tensor : graph_.tensors())
      for (const DeviceId device : problem_.devices())
        if (place(tensor, device).allocated) say("{} was never freed", where(tensor, device));
    return std::move(hazards_);
  }

 private:
  enum class Run : std::uint8_t { no, begun, ended };
  struct Place {
    bool allocated = false, written = false, was_freed = false, sent = false;
    int users = 0;
  };

  template <class... Parts>
  void say(fmt::format_string<Parts...> form, Parts&&... parts) {
    hazards_.push_back(fmt::format(form, std::forward<Parts>(parts)...));
  }
  Place& place(TensorId tensor, DeviceId device) {
    return places_[tensor.index() * problem_.device_count() + device.index()];
  }
  const std::string& name(DeviceId device) const { return problem_.cluster().device(device).name; }
  std::string where(TensorId tensor, DeviceId device) const {
    return fmt::format("'{}' on {}", graph_.name(tensor), name(device));
  }

  void allocate(TensorId tensor, DeviceId device) {
    Place& here = place(tensor, device);
    if (here.allocated) say("{} was allocated twice", where(tensor, device));
    here.allocated = true;
  }

  void free(TensorId tensor, DeviceId device) {
    Place& here = place(tensor, device);
    if (!here.allocated) return say("{} was freed without having been allocated", where(tensor, device));
    if (here.users > 0) say("{} was freed while in use", where(tensor, device));
    for (const OpId consumer : graph_.consumers(tensor))
      if (schedule_.placement[consumer] == device && runs_[consumer] != Run::ended)
        say("{} was freed before '{}' had read it", where(tensor, device), graph_.name(consumer));
    if (graph_.kept(tensor) && schedule_.placement[graph_.producer(tensor)] == device &&
        std::find(runs_.begin(), runs_.end(), Run::no) != runs_.end())
      say("{} must be kept to the end, but was freed before", where(tensor, device));
    here.allocated = here.written = false;
    here.was_freed = true;
  }

  bool takes_time(OpId op) const { return problem_.duration(op, schedule_.placement[op]).count != 0; }

  void begin_op(OpId op, DeviceId device) {
    if (device != schedule_.placement[op])
      return say("'{}' ran on {}, not on {}", graph_.name(op), name(device), name(schedule_.placement[op]));
    if (runs_[op] != Run::no) return say("'{}' ran twice", graph_.name(op));
    runs_[op] = Run::begun;
    if (takes_time(op)) take_turn(op, device);
    for (const OpId before : graph_.after(op))
      if (runs_[before] != Run::ended) say("'{}' started before '{}' had ended", graph_.name(op), graph_.name(before));
    for (const TensorId tensor : graph_.inputs(op)) {
      Place& here = place(tensor, device);
      if (!here.written)
        say("'{}' read {} {}", graph_.name(op), where(tensor, device),
            here.was_freed ? "after it had been freed" : "before it was written");
      ++here.users;
    }
    for (const TensorId tensor : graph_.outputs(op)) {
      if (!place(tensor, device).allocated)
        say("'{}' wrote {}, for which no memory was allocated", graph_.name(op), where(tensor, device));
      ++place(tensor, device).users;
    }
  }

  void take_turn(OpId op, DeviceId device) {
    if (!busy_[device].is_none())
      say("'{}' began on {} while '{}' ran there", graph_.name(op), name(device), graph_.name(busy_[device]));
    busy_[device] = op;
    if (schedule_.policy != Policy::strict) return;
    const std::vector<OpId>& order = schedule_.order[device];
    std::size_t& turn = turn_[device];
    while (turn < order.size() && !takes_time(order[turn])) ++turn;
    if (turn == order.size() || order[turn] != op) say("'{}' ran on {} out of order", graph_.name(op), name(device));
    ++turn;
  }

  void end_op(OpId op, DeviceId device) {
    if (runs_[op] != Run::begun) return say("'{}' ended without having begun", graph_.name(op));
    runs_[op] = Run::ended;
    if (busy_[device] == op) busy_[device] = OpId::none();
    for (const TensorId tensor : graph_.inputs(op)) --place(tensor, device).users;
    for (const TensorId tensor : graph_.outputs(op)) {
      place(tensor, device).written = true;
      --place(tensor, device).users;
    }
  }

  void begin_transfer(TensorId tensor, DeviceId from, DeviceId to) {
    if (!place(tensor, from).written)
      say("the transfer of {} to {} began {}", where(tensor, from), name(to),
          place(tensor, from).was_freed ? "after it had been freed" : "before it was written");
    if (std::exchange(place(tensor, to).sent, true)) say("{} was sent to {} twice", where(tensor, from), name(to));
    ++place(tensor, from).users;
  }

  void end_transfer(TensorId tensor, DeviceId from, DeviceId to) {
    Place& there = place(tensor, to);
    --place(tensor, from).users;
    if (!there.allocated) say("{} arrived, but no memory was allocated for it", where(tensor, to));
    there.written = true;
  }

  const Problem& problem_;
  const Graph& graph_ = problem_.graph();
  const Schedule& schedule_;
  IdMap<OpId, Run> runs_{graph_.op_count(), Run::no};
  std::vector<Place> places_;
  IdMap<DeviceId, OpId> busy_{problem_.device_count(), OpId::none()};
  IdMap<DeviceId, std::size_t> turn_{problem_.device_count(), 0};
  std::vector<std::string> hazards_;
};

}  // namespace

std::vector<std::string> hazards(const Problem& problem, const Schedule& schedule, const std::vector<Action>& actions) {
  Checker checker{problem, schedule};
  for (const Action& action : actions) checker.take(action);
  return checker.finish();
}

}  // namespace trainyard
