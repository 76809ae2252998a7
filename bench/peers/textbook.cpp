#include "textbook.hpp"

#include <deque>
#include <memory>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trainyard::bench {
namespace {

class Loop;

struct Event {
  Event(std::int64_t at, std::uint64_t number) : time(at), sequence(number) {}
  virtual ~Event() = default;
  virtual void happen(Loop& loop) = 0;
  std::int64_t time;
  std::uint64_t sequence;
};

struct Later {
  bool operator()(const std::shared_ptr<Event>& a, const std::shared_ptr<Event>& b) const {
    return a->time != b->time ? a->time > b->time : a->sequence > b->sequence;
  }
};

struct Crossing {
  TensorId tensor;
  DeviceId from, to;
};

class Loop {
 public:
  Loop(const Problem& problem, const Schedule& schedule) : problem_(problem), schedule_(schedule) {}

  Nanoseconds run() {
    const Graph& graph = problem_.graph();
    for (const OpId op : graph.ops()) {
      missing_[op.index()] = graph.inputs(op).size() + graph.after(op).size();
      if (missing_[op.index()] == 0) make_ready(op);
    }
    dispatch_all();
    while (!events_.empty()) {
      now_ = events_.top()->time;
      while (!events_.empty() && events_.top()->time == now_) {
        const std::shared_ptr<Event> event = events_.top();
        events_.pop();
        event->happen(*this);
      }
      dispatch_all();
    }
    return Nanoseconds{last_};
  }

  void op_ended(OpId op) {
    last_ = now_;
    const DeviceId home = schedule_.placement[op];
    busy_devices_[home.index()] = false;
    touched_devices_.insert(home.index());
    for (const TensorId tensor : problem_.graph().outputs(op)) {
      std::set<std::size_t> destinations;
      for (const OpId consumer : problem_.graph().consumers(tensor)) {
        const DeviceId to = schedule_.placement[consumer];
        if (to == home)
          satisfy(consumer);
        else
          destinations.insert(to.index());
      }
      for (const std::size_t to : destinations) {
        const std::size_t link = home.index() * problem_.device_count() + to;
        links_[link].push_back(std::make_shared<Crossing>(Crossing{tensor, home, DeviceId{to}}));
        touched_links_.insert(link);
      }
    }
    for (const OpId later : problem_.graph().before(op)) satisfy(later);
  }
  void crossing_ended(const Crossing& crossing) {
    const std::size_t link = crossing.from.index() * problem_.device_count() + crossing.to.index();
    busy_links_[link] = false;
    touched_links_.insert(link);
    for (const OpId consumer : problem_.graph().consumers(crossing.tensor))
      if (schedule_.placement[consumer] == crossing.to) satisfy(consumer);
  }

 private:
  struct OpEnd : Event {
    OpEnd(std::int64_t at, std::uint64_t number, OpId ended) : Event(at, number), op(ended) {}
    void happen(Loop& loop) override { loop.op_ended(op); }
    OpId op;
  };
  struct CrossingEnd : Event {
    CrossingEnd(std::int64_t at, std::uint64_t number, std::shared_ptr<Crossing> ended)
        : Event(at, number), crossing(std::move(ended)) {}
    void happen(Loop& loop) override { loop.crossing_ended(*crossing); }
    std::shared_ptr<Crossing> crossing;
  };

  void satisfy(OpId op) {
    if (--missing_[op.index()] == 0) make_ready(op);
  }
  void make_ready(OpId op) {
    const std::size_t device = schedule_.placement[op].index();
    devices_[device].insert({now_, op.index()});
    touched_devices_.insert(device);
  }
  void dispatch_all() {
    for (const std::size_t device : touched_devices_) {
      if (busy_devices_[device] || devices_[device].empty()) continue;
      const OpId op{devices_[device].begin()->second};
      devices_[device].erase(devices_[device].begin());
      busy_devices_[device] = true;
      events_.push(std::make_shared<OpEnd>(now_ + problem_.duration(op, DeviceId{device}).count, sequence_++, op));
    }
    for (const std::size_t link : touched_links_) {
      if (busy_links_[link] || links_[link].empty()) continue;
      const auto crossing = links_[link].front();
      links_[link].pop_front();
      busy_links_[link] = true;
      const auto time = problem_.transfer_time(crossing->tensor, crossing->from, crossing->to);
      events_.push(std::make_shared<CrossingEnd>(now_ + time.count, sequence_++, crossing));
    }
    touched_devices_.clear();
    touched_links_.clear();
  }

  const Problem& problem_;
  const Schedule& schedule_;
  std::priority_queue<std::shared_ptr<Event>, std::vector<std::shared_ptr<Event>>, Later> events_;
  std::unordered_map<std::size_t, std::size_t> missing_;
  std::unordered_map<std::size_t, std::set<std::pair<std::int64_t, std::size_t>>> devices_;
  std::unordered_map<std::size_t, std::deque<std::shared_ptr<Crossing>>> links_;
  std::unordered_map<std::size_t, bool> busy_devices_, busy_links_;
  std::set<std::size_t> touched_devices_, touched_links_;
  std::int64_t now_ = 0, last_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace

Nanoseconds textbook_makespan(const Problem& problem, const Schedule& schedule) {
  return Loop{problem, schedule}.run();
}

}  // namespace trainyard::bench
