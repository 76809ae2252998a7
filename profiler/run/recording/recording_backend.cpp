#include "profiler/run/recording/recording_backend.hpp"

#include <algorithm>
#include <tuple>

#include "profiler/run/memory_of_trace.hpp"
#include "profiler/run/recording/hazards.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// The begin or the end of an op or a transfer, or both if it takes no time.
struct Moment {
  Nanoseconds at;
  enum Phase : std::uint8_t { end, both, begin } phase;
  std::size_t rank;  // orders zero durations: after their needs
  std::size_t task;  // index of an op, or op count + index of a transfer

  friend bool operator<(const Moment& a, const Moment& b) {
    return std::tie(a.at, a.phase, a.rank, a.task) < std::tie(b.at, b.phase, b.rank, b.task);
  }
};

class Writer {
 public:
  Writer(const Problem& problem, const Schedule& schedule, const Timeline& timeline)
      : graph_(problem.graph()),
        schedule_(schedule),
        timeline_(timeline),
        devices_(problem.device_count()),
        users_(graph_.tensor_count() * devices_, 0) {}

  std::vector<Action> write() {
    count_users();
    std::vector<Moment> moments;
    const auto add = [&](Nanoseconds start, Nanoseconds end, std::size_t rank, std::size_t task) {
      if (start == end) return moments.push_back({start, Moment::both, rank, task});
      moments.push_back({start, Moment::begin, rank, task});
      moments.push_back({end, Moment::end, rank, task});
    };
    IdMap<OpId, std::size_t> rank(graph_.op_count());
    std::size_t next = 0;
    for (const OpId op : graph_.topological_order()) rank[op] = 2 * next++;
    for (const OpId op : graph_.ops()) add(timeline_.ops[op].start, timeline_.ops[op].end, rank[op], op.index());
    for (std::size_t i = 0; i < timeline_.transfers.size(); ++i) {
      const Transfer& transfer = timeline_.transfers[i];
      add(transfer.start, transfer.end, rank[graph_.producer(transfer.tensor)] + 1, graph_.op_count() + i);
    }
    std::sort(moments.begin(), moments.end());
    for (const Moment& moment : moments) {
      if (moment.phase != Moment::end) begin(moment.task);
      if (moment.phase != Moment::begin) end(moment.task);
    }
    for (const TensorId tensor : graph_.tensors())
      if (graph_.kept(tensor)) release(tensor, schedule_.placement[graph_.producer(tensor)]);
    return std::move(actions_);
  }

 private:
  int& users(TensorId tensor, DeviceId device) { return users_[tensor.index() * devices_ + device.index()]; }

  /// Users of each tensor on each device: its producer or transfer, its readers, its onward transfers, the end of the
  /// step.
  void count_users() {
    for (const TensorId tensor : graph_.tensors()) {
      users(tensor, schedule_.placement[graph_.producer(tensor)]) += graph_.kept(tensor) ? 2 : 1;
      for (const OpId consumer : graph_.consumers(tensor)) ++users(tensor, schedule_.placement[consumer]);
    }
    for (const Transfer& transfer : timeline_.transfers)
      each_target(transfer,
                  [&](DeviceId to) { ++users(transfer.tensor, transfer.from), ++users(transfer.tensor, to); });
  }

  template <class Visit>
  static void each_target(const Transfer& transfer, Visit&& visit) {
    visit(transfer.to);
    for (const DeviceId to : transfer.also_to) visit(to);
  }

  void begin(std::size_t task) {
    if (task >= graph_.op_count()) {
      const Transfer& transfer = timeline_.transfers[task - graph_.op_count()];
      return each_target(transfer, [&](DeviceId to) {
        actions_.push_back({Action::Kind::allocate, OpId::none(), transfer.tensor, to, DeviceId::none()});
        actions_.push_back({Action::Kind::begin_transfer, OpId::none(), transfer.tensor, transfer.from, to});
      });
    }
    const OpId op{task};
    const DeviceId device = schedule_.placement[op];
    for (const TensorId tensor : graph_.outputs(op))
      actions_.push_back({Action::Kind::allocate, OpId::none(), tensor, device, DeviceId::none()});
    actions_.push_back({Action::Kind::begin_op, op, TensorId::none(), device, DeviceId::none()});
  }

  void end(std::size_t task) {
    if (task >= graph_.op_count()) {
      const Transfer& transfer = timeline_.transfers[task - graph_.op_count()];
      return each_target(transfer, [&](DeviceId to) {
        actions_.push_back({Action::Kind::end_transfer, OpId::none(), transfer.tensor, transfer.from, to});
        release(transfer.tensor, transfer.from);
        release(transfer.tensor, to);
      });
    }
    const OpId op{task};
    const DeviceId device = schedule_.placement[op];
    actions_.push_back({Action::Kind::end_op, op, TensorId::none(), device, DeviceId::none()});
    for (const TensorId tensor : graph_.outputs(op)) release(tensor, device);
    for (const TensorId tensor : graph_.inputs(op)) release(tensor, device);
  }

  void release(TensorId tensor, DeviceId device) {
    if (--users(tensor, device) == 0)
      actions_.push_back({Action::Kind::free, OpId::none(), tensor, device, DeviceId::none()});
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Timeline& timeline_;
  const std::size_t devices_;
  std::vector<int> users_;
  std::vector<Action> actions_;
};

class RecordingRun : public PreparedRun {
 public:
  RecordingRun(const Problem& problem, const Schedule& schedule, ActionLog* log) : log_(log) {
    const Timeline timeline = simulate(problem, schedule);
    actions_ = actions_of(problem, schedule, timeline);
    trace_.makespan = timeline.makespan;
    trace_.ops = timeline.ops;
    trace_.transfers = timeline.transfers;
    trace_.order = IdMap<DeviceId, std::vector<OpId>>(problem.device_count());
    std::int64_t held = 0, most = 0;
    for (const Action& action : actions_) {
      if (action.kind == Action::Kind::begin_op && trace_.ops[action.op].start != trace_.ops[action.op].end)
        trace_.order[action.device].push_back(action.op);
      if (action.kind == Action::Kind::allocate) held += problem.graph().bytes(action.tensor).count;
      if (action.kind == Action::Kind::free) held -= problem.graph().bytes(action.tensor).count;
      most = std::max(most, held);
    }
    trace_.allocated = Bytes{most};
    trace_.peak = peaks_of(problem, schedule.placement, trace_.ops, trace_.transfers);
    trace_.hazards = hazards(problem, schedule, actions_);
  }

  const StepTrace& step() override {
    if (log_) {
      log_->clear();
      for (const Action& action : actions_) log_->add(action);
    }
    return trace_;
  }
  void reset() override {}
  std::uint64_t parameter_checksum() const override { return 0; }

 private:
  ActionLog* log_;
  std::vector<Action> actions_;
  StepTrace trace_;
};

class RecordingBackend : public Backend {
 public:
  explicit RecordingBackend(ActionLog* log) : log_(log) {}
  std::string name() const override { return "recording"; }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload&, const Schedule& schedule) override {
    if (schedule.rewrites != problem.rewrites())
      refuse("splits", "the schedule has rewrites (\"splits\") that the problem does not have",
             "place it with --no-splits");
    return std::make_unique<RecordingRun>(problem, schedule, log_);
  }

 private:
  ActionLog* log_;
};

}  // namespace

std::vector<Action> actions_of(const Problem& problem, const Schedule& schedule, const Timeline& timeline) {
  return Writer{problem, schedule, timeline}.write();
}

std::unique_ptr<Backend> make_recording_backend(ActionLog* log) { return std::make_unique<RecordingBackend>(log); }

}  // namespace trainyard
