#include "profiler/run/cuda/plan.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace trainyard::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Places in one device's allocation, with their users.
class Arena {
 public:
  explicit Arena(Bytes resident) : top_(aligned(resident.count)), resident_(top_) {}

  /// A place for [from, until); `from` must not decrease from call to call. The first of `users` writes it. `before`
  /// gets the items to wait for. A place is occupied until its time has passed and no user at or after the writer is
  /// left: readers of zero duration may still follow.
  Bytes place(Bytes bytes, Nanoseconds from, Nanoseconds until, const std::vector<std::uint32_t>& users,
              std::set<std::uint32_t>& before) {
    const std::int64_t size = aligned(std::max<std::int64_t>(bytes.count, 1));
    std::vector<std::pair<std::int64_t, std::int64_t>> held;
    for (const Place& place : places_)
      if (place.until > from || place.last_user >= users.front()) held.emplace_back(place.begin, place.end);
    std::ranges::sort(held);
    std::int64_t at = resident_;
    for (const auto& [begin, end] : held) {
      if (at + size <= begin) break;
      at = std::max(at, end);
    }
    for (const Place& place : places_)
      if (place.begin < at + size && at < place.end) before.insert(place.users.begin(), place.users.end());
    // Later items need not wait for places that this one covers completely: its users wait for theirs.
    std::erase_if(places_, [&](const Place& place) { return place.begin >= at && place.end <= at + size; });
    places_.push_back({at, at + size, until, *std::ranges::max_element(users), users});
    top_ = std::max(top_, at + size);
    return Bytes{at};
  }
  Bytes top() const { return Bytes{top_}; }

 private:
  struct Place {
    std::int64_t begin, end;
    Nanoseconds until;
    std::uint32_t last_user;
    std::vector<std::uint32_t> users;
  };
  std::int64_t top_, resident_;
  std::vector<Place> places_;
};

class Planner {
 public:
  Planner(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
          const IdMap<TensorId, Bytes>& bytes)
      : problem_(problem), graph_(problem.graph()), schedule_(schedule), timeline_(timeline), bytes_(bytes) {}

  ExecutionPlan plan() {
    collect_tasks();
    order_tasks();
    choose_streams();
    add_dependencies();
    place_tensors();
    for (PlanItem& item : plan_.items) {
      std::ranges::sort(item.waits);
      item.waits.erase(std::unique(item.waits.begin(), item.waits.end()), item.waits.end());
      std::erase_if(item.waits, [&](std::uint32_t other) { return plan_.items[other].stream == item.stream; });
    }
    find_inputs();
    return std::move(plan_);
  }

 private:
  Bytes bytes(TensorId tensor) const {
    return bytes_.empty() ? graph_.bytes(tensor) : std::max(graph_.bytes(tensor), bytes_[tensor]);
  }

  /// Marks inputs at the head of their stream that wait for nothing: the simulator has them before the step.
  void find_inputs() {
    std::vector<char> begun(plan_.stream_device.size(), 0);
    for (PlanItem& item : plan_.items) {
      item.before_step = !begun[item.stream] && !item.is_transfer && item.waits.empty() &&
                         item.predicted.end == Nanoseconds{0} && graph_.type(item.op) == "Input";
      begun[item.stream] = begun[item.stream] || !item.before_step;
    }
  }

  /// A task before its position in the order is known. `needs`: indices into tasks_.
  struct Task {
    PlanItem item;
    std::vector<std::size_t> needs;
  };

  void collect_tasks() {
    for (const OpId op : problem_.ops()) {
      const DeviceId device = schedule_.placement[op];
      tasks_.push_back({{.op = op, .from = device, .to = device, .predicted = timeline_.ops[op]}, {}});
    }
    for (const Transfer& transfer : timeline_.transfers) {
      std::vector<DeviceId> targets{transfer.to};
      targets.insert(targets.end(), transfer.also_to.begin(), transfer.also_to.end());
      for (const DeviceId to : targets) {
        const OpId producer = graph_.producer(transfer.tensor);
        arrival_[{transfer.tensor, to}] = tasks_.size();
        tasks_.push_back({{.is_transfer = true,
                           .op = producer,
                           .tensor = transfer.tensor,
                           .from = transfer.from,
                           .to = to,
                           .predicted = {transfer.start, transfer.end}},
                          {producer.index()}});
      }
    }
    for (const OpId op : problem_.ops()) {
      std::vector<std::size_t>& needs = tasks_[op.index()].needs;
      for (const TensorId tensor : graph_.inputs(op)) {
        const auto arrived = arrival_.find({tensor, schedule_.placement[op]});
        needs.push_back(arrived == arrival_.end() ? graph_.producer(tensor).index() : arrived->second);
      }
      for (const OpId earlier : graph_.after(op)) needs.push_back(earlier.index());
    }
  }

  /// Orders tasks by start, end and number, but never before their needs: a task of zero duration may start with its
  /// need.
  void order_tasks() {
    std::vector<std::size_t> open(tasks_.size());
    std::vector<std::vector<std::size_t>> next(tasks_.size());
    using Key = std::tuple<Nanoseconds, Nanoseconds, std::size_t>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    const auto push = [&](std::size_t task) {
      ready.emplace(tasks_[task].item.predicted.start, tasks_[task].item.predicted.end, task);
    };
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      open[task] = tasks_[task].needs.size();
      for (const std::size_t needed : tasks_[task].needs) next[needed].push_back(task);
      if (open[task] == 0) push(task);
    }
    place_of_.assign(tasks_.size(), 0);
    while (!ready.empty()) {
      const std::size_t task = std::get<2>(ready.top());
      ready.pop();
      place_of_[task] = static_cast<std::uint32_t>(plan_.items.size());
      task_at_.push_back(task);
      plan_.items.push_back(tasks_[task].item);
      for (const std::size_t after : next[task])
        if (--open[after] == 0) push(after);
    }
  }

  void choose_streams() {
    for (const DeviceId device : problem_.devices()) plan_.stream_device.push_back(device);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> streams;  // by channel, or by pair of devices
    std::map<ChannelId, std::uint32_t> last;
    for (std::uint32_t at = 0; at < plan_.items.size(); ++at) {
      PlanItem& item = plan_.items[at];
      if (!item.is_transfer) {
        item.stream = static_cast<std::uint32_t>(item.from.index());
        continue;
      }
      const auto channels = problem_.cluster().route(item.from, item.to).channels;
      constexpr std::uint32_t kChannel = ~std::uint32_t{0};
      const auto key = channels.empty() ? std::pair{static_cast<std::uint32_t>(item.from.index()),
                                                    static_cast<std::uint32_t>(item.to.index())}
                                        : std::pair{kChannel, static_cast<std::uint32_t>(channels.front().index())};
      const auto [known, added] = streams.try_emplace(key, static_cast<std::uint32_t>(plan_.stream_device.size()));
      if (added) plan_.stream_device.push_back(item.from);
      item.stream = known->second;
      for (const ChannelId channel : channels) {
        if (const auto before = last.find(channel); before != last.end()) item.waits.push_back(before->second);
        last[channel] = at;
      }
    }
  }

  void add_dependencies() {
    for (std::uint32_t at = 0; at < plan_.items.size(); ++at)
      for (const std::size_t needed : tasks_[task_at_[at]].needs) plan_.items[at].waits.push_back(place_of_[needed]);
  }

  void place_tensors() {
    std::vector<Arena> arenas;
    for (const DeviceId device : problem_.devices()) {
      Bytes resident{};
      for (const OpId op : problem_.ops())
        if (schedule_.placement[op] == device) resident += problem_.resident_bytes(op);
      arenas.emplace_back(resident);
    }
    for (std::uint32_t at = 0; at < plan_.items.size(); ++at) {
      const PlanItem& item = plan_.items[at];
      if (item.is_transfer) {
        place(arenas, at, item.tensor, item.to);
      } else {
        for (const TensorId tensor : graph_.outputs(item.op)) place(arenas, at, tensor, item.from);
        if (graph_.workspace_bytes(item.op).count > 0) place_workspace(arenas, at);  // last of its writes
      }
    }
    for (PlanItem& item : plan_.items) {
      if (item.is_transfer)
        item.reads.push_back(place_of_tensor_.at({item.tensor, item.from}));
      else
        for (const TensorId tensor : graph_.inputs(item.op))
          item.reads.push_back(place_of_tensor_.at({tensor, item.from}));
    }
    plan_.arena.assign(problem_.device_count(), Bytes{});
    plan_.predicted_peak.assign(problem_.device_count(), Bytes{});
    for (const DeviceId device : problem_.devices()) {
      plan_.arena[device] = arenas[device.index()].top();
      plan_.predicted_peak[device] = timeline_.devices[device].peak;
    }
  }

  /// Places on the device the tensor that item `writer` makes or brings there.
  void place(std::vector<Arena>& arenas, std::uint32_t writer, TensorId tensor, DeviceId device) {
    std::vector<std::uint32_t> users{writer};
    const bool produced_here = !plan_.items[writer].is_transfer;
    for (const OpId consumer : graph_.consumers(tensor))
      if (schedule_.placement[consumer] == device) users.push_back(place_of_[consumer.index()]);
    if (produced_here)
      for (auto sent = arrival_.lower_bound({tensor, DeviceId{0}});
           sent != arrival_.end() && sent->first.first == tensor; ++sent)
        users.push_back(place_of_[sent->second]);
    Nanoseconds until = plan_.items[writer].predicted.end;
    for (const std::uint32_t user : users) until = std::max(until, plan_.items[user].predicted.end);
    if (produced_here && graph_.kept(tensor)) until = kLongestTime;
    std::set<std::uint32_t> before;
    const Nanoseconds from = plan_.items[writer].predicted.start;
    // A tensor of zero lifetime needs its place while its users run.
    const Bytes offset =
        arenas[device.index()].place(bytes(tensor), from, std::max(until, from + Nanoseconds{1}), users, before);
    const BufferPlace buffer{device, offset, bytes(tensor)};
    plan_.items[writer].writes.push_back(buffer);
    place_of_tensor_[{tensor, device}] = buffer;
    wait_for(writer, before);
  }

  void place_workspace(std::vector<Arena>& arenas, std::uint32_t at) {
    const PlanItem& item = plan_.items[at];
    std::set<std::uint32_t> before;
    const Bytes bytes = graph_.workspace_bytes(item.op);
    const Bytes offset = arenas[item.from.index()].place(
        bytes, item.predicted.start, std::max(item.predicted.end, item.predicted.start + Nanoseconds{1}), {at}, before);
    plan_.items[at].writes.push_back({item.from, offset, bytes});
    wait_for(at, before);
  }

  /// Waits for earlier users of a place; later ones are the writer's own readers.
  void wait_for(std::uint32_t writer, const std::set<std::uint32_t>& before) {
    for (const std::uint32_t user : before)
      if (user < writer) plan_.items[writer].waits.push_back(user);
  }

  const Problem& problem_;
  const Graph& graph_;
  const Schedule& schedule_;
  const Timeline& timeline_;
  const IdMap<TensorId, Bytes>& bytes_;
  ExecutionPlan plan_;
  std::vector<Task> tasks_;
  std::map<std::pair<TensorId, DeviceId>, std::size_t> arrival_;  // indices of tasks
  std::map<std::pair<TensorId, DeviceId>, BufferPlace> place_of_tensor_;
  std::vector<std::uint32_t> place_of_;  // by task: position in the order
  std::vector<std::size_t> task_at_;
};

}  // namespace

ExecutionPlan make_plan(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                        const IdMap<TensorId, Bytes>& bytes) {
  return Planner{problem, schedule, timeline, bytes}.plan();
}

}  // namespace trainyard::cuda
