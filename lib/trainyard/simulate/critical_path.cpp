#include "trainyard/simulate/critical_path.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/problem/collective_run.hpp"

namespace trainyard {
namespace {

class Backtrace {
 public:
  Backtrace(const Problem& problem, const Schedule& schedule, const Timeline& timeline)
      : problem_(problem),
        graph_(problem.graph()),
        placement_(schedule.placement),
        timeline_(timeline),
        runs_(problem) {
    std::vector<std::pair<DeviceId, OpId>> on_device;
    for (const OpId op : graph_.ops())
      if (timeline.ops[op].end > timeline.ops[op].start) on_device.emplace_back(placement_[op], op);
    std::ranges::sort(on_device, {}, [&](const auto& entry) { return timeline.ops[entry.second].start; });
    device_ops_ = CompressedRows<DeviceId, OpId>(problem.device_count(), on_device);

    std::vector<std::pair<ChannelId, std::uint32_t>> on_channel;
    first_transfer_.assign(graph_.tensor_count() + 1, 0);
    for (std::uint32_t i = 0; i < timeline.transfers.size(); ++i) {
      const Transfer& transfer = timeline.transfers[i];
      ++first_transfer_[transfer.tensor.index() + 1];
    }
    for (std::size_t t = 0; t < graph_.tensor_count(); ++t) first_transfer_[t + 1] += first_transfer_[t];
    for (std::uint32_t i = 0; i < timeline.transfers.size(); ++i)
      if (timeline.transfers[i].end > timeline.transfers[i].start)
        for (const ChannelId channel : held(i))
          if (is_serial(channel)) on_channel.emplace_back(channel, i);
    std::ranges::sort(on_channel, {}, [&](const auto& entry) {
      return std::pair{timeline.transfers[entry.second].start, entry.second};
    });
    channel_transfers_ = CompressedRows<ChannelId, std::uint32_t>(problem.cluster().channel_count(), on_channel);
  }

  std::vector<PathStep> run() const {
    PathStep at = op_step(OpId{0});
    for (const OpId op : graph_.ops())
      if (timeline_.ops[op].end > timeline_.ops[at.op].end) at.op = op;
    std::vector<PathStep> path;
    while (true) {
      const auto before = step_before(at);
      path.push_back(at);
      if (!before) break;
      at = *before;
    }
    std::ranges::reverse(path);
    return path;
  }

 private:
  static PathStep op_step(OpId op) { return {op}; }
  static PathStep transfer_step(std::size_t index) { return {OpId::none(), index}; }
  /// Channels that the transfer occupies; for a collective, those of the first part only.
  std::vector<ChannelId> held(std::size_t index) const {
    const Transfer& transfer = timeline_.transfers[index];
    const OpId collective = collective_of(graph_, placement_, transfer);
    if (collective.is_none()) {
      const Hops<ChannelId> channels = problem_.cluster().route(transfer.from, transfer.to).channels;
      return {channels.begin(), channels.end()};
    }
    if (part_of(collective) != index) return {};
    return runs_.of(collective, placement_).channels;
  }
  /// Index of the first part of a collective.
  std::optional<std::size_t> part_of(OpId collective) const {
    for (const OpId member : graph_.before(collective))
      for (const TensorId tensor : graph_.outputs(member))
        for (std::size_t at = first_transfer_[tensor.index()]; at < first_transfer_[tensor.index() + 1]; ++at)
          if (timeline_.transfers[at].to == placement_[member]) return at;
    return std::nullopt;
  }
  /// The last op to end among those before the collective.
  OpId last_source(OpId collective) const {
    return *std::ranges::max_element(graph_.after(collective), {}, [&](OpId op) {
      return std::pair{timeline_.ops[op].end, -1 - static_cast<std::int64_t>(op.index())};
    });
  }

  bool is_serial(ChannelId channel) const { return !problem_.cluster().channel(channel).fair; }

  /// Finds the previous step and sets the cause of `step`.
  std::optional<PathStep> step_before(PathStep& step) const {
    const auto before = step.op.is_none() ? before_transfer(step) : before_op(step);
    if (!before) step.cause = PathStep::Cause::start;
    return before;
  }

  std::optional<PathStep> before_op(PathStep& step) const {
    const OpId op = step.op;
    const Nanoseconds start = timeline_.ops[op].start;
    step.cause = PathStep::Cause::data;
    OpId ended = OpId::none();
    std::optional<std::size_t> arrived;
    const auto offer_op = [&](OpId earlier) {
      if (timeline_.ops[earlier].end == start) ended = std::min(ended, earlier);
    };
    for (const OpId earlier : graph_.after(op)) offer_op(earlier);
    for (const TensorId tensor : graph_.inputs(op)) {
      const OpId producer = graph_.producer(tensor);
      if (placement_[producer] == placement_[op]) {
        offer_op(producer);
      } else {
        const std::size_t transfer = transfer_to(tensor, placement_[op]);
        if (timeline_.transfers[transfer].end == start) arrived = std::min(arrived.value_or(transfer), transfer);
      }
    }
    if (!ended.is_none()) return op_step(ended);
    if (arrived) return transfer_step(*arrived);
    if (start == Nanoseconds{0}) return {};
    if (graph_.collective(op)) {
      const auto part = part_of(op);
      return part ? transfer_step(*part) : op_step(last_source(op));
    }
    step.cause = PathStep::Cause::resource;
    const auto last = last_before(device_ops_[placement_[op]], start, [&](OpId o) { return timeline_.ops[o].start; });
    return last ? std::optional{op_step(*last)} : std::nullopt;
  }

  std::optional<PathStep> before_transfer(PathStep& step) const {
    const Transfer& transfer = timeline_.transfers[step.transfer];
    step.cause = PathStep::Cause::data;
    const OpId collective = collective_of(graph_, placement_, transfer);
    const OpId source = collective.is_none() ? graph_.producer(transfer.tensor) : last_source(collective);
    if (transfer.start == transfer.ready) return op_step(source);
    step.cause = PathStep::Cause::resource;
    // Finds the transfer after which a channel became idle at this moment.
    std::optional<std::uint32_t> before;
    for (const ChannelId channel : held(collective.is_none() ? step.transfer : *part_of(collective))) {
      const auto last = last_before(channel_transfers_[channel], transfer.start,
                                    [&](std::uint32_t i) { return timeline_.transfers[i].start; });
      if (!last || timeline_.transfers[*last].end + problem_.cluster().channel(channel).gap != transfer.start) continue;
      before = std::min(before.value_or(*last), *last);
    }
    if (before) return transfer_step(*before);
    // A collective whose members make no tensor occupied the channel.
    step.cause = PathStep::Cause::data;
    return op_step(source);
  }

  std::size_t transfer_to(TensorId tensor, DeviceId device) const {
    std::size_t at = first_transfer_[tensor.index()];
    while (timeline_.transfers[at].to != device && !std::ranges::binary_search(timeline_.transfers[at].also_to, device))
      ++at;
    return at;
  }

  /// The last of `tasks`, which are sorted by start, that starts before `time`.
  template <class Task, class StartOf>
  static std::optional<Task> last_before(std::span<const Task> tasks, Nanoseconds time, const StartOf& start_of) {
    const auto first_later = std::ranges::lower_bound(tasks, time, {}, start_of);
    if (first_later == tasks.begin()) return {};
    return *(first_later - 1);
  }

  const Problem& problem_;
  const Graph& graph_;
  const Placement& placement_;
  const Timeline& timeline_;
  CompressedRows<DeviceId, OpId> device_ops_;                   // by start
  CompressedRows<ChannelId, std::uint32_t> channel_transfers_;  // by start
  std::vector<std::size_t> first_transfer_;                     // by tensor
  mutable CollectiveRuns runs_;
};

}  // namespace

std::vector<PathStep> critical_path(const Problem& problem, const Schedule& schedule, const Timeline& timeline) {
  check_sizes(problem, schedule.placement, timeline);
  return Backtrace{problem, schedule, timeline}.run();
}

OpId collective_of(const Graph& graph, const Placement& placement, const Transfer& transfer) {
  const OpId producer = graph.producer(transfer.tensor);
  return placement[producer] == transfer.to ? graph.member_of(producer) : OpId::none();
}

}  // namespace trainyard
