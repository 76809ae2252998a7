#include "trainyard/place/list/relay.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <tuple>
#include <utility>

#include "trainyard/cluster/part.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/baechi/m_etf.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/place/kit/piece.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/heft.hpp"

namespace trainyard {
namespace {

/// kFirstOps: with more ops, block sizes are tried on so many first ops. kSmall: (op, device) pairs beyond which time
/// may be short.
constexpr std::size_t kFirstOps = 1'000, kSmall = 20'000;

bool is_small(const Problem& problem) { return problem.op_count() * problem.device_count() <= kSmall; }

/// Number of ops that a device cannot run, and the total time of the others.
using Slowness = std::pair<std::size_t, double>;

std::vector<Slowness> slowness(const Problem& problem) {
  std::vector<Slowness> of(problem.column_count());
  for (const OpId op : problem.ops())
    for (std::size_t column = 0; column < of.size(); ++column) {
      const Nanoseconds time = problem.durations()[op.index() * of.size() + column];
      if (time == Problem::kNever)
        ++of[column].first;
      else
        of[column].second += static_cast<double>(time.count);
    }
  return of;
}

/// Total time of all tensors, by class of routes.
std::vector<double> crossing_times(const Problem& problem) {
  std::vector<double> of_rate(problem.rate_count(), 0), of;
  double tensors = 0;
  for (const TensorId tensor : problem.graph().tensors()) {
    if (problem.graph().consumers(tensor).empty()) continue;
    ++tensors;
    for (std::size_t rate = 0; rate < of_rate.size(); ++rate)
      of_rate[rate] += static_cast<double>(problem.byte_times()[tensor.index() * of_rate.size() + rate].count);
  }
  for (std::uint32_t routes = 0; routes < problem.cluster().route_classes().size(); ++routes)
    of.push_back(tensors * static_cast<double>(problem.transfer_latency(routes).count) + of_rate[problem.rate(routes)]);
  return of;
}

/// Block sizes: three quarters of all devices (on small graphs only), a half, and so on, each once. All devices come
/// last, since they take longest.
std::vector<std::size_t> sizes_up_to(std::size_t devices, bool small) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = devices; size > 0; size /= 2) {
    if (size < devices) sizes.push_back(size);
    if (const std::size_t less = size * 3 / 4; small && less > size / 2) sizes.push_back(less);
  }
  sizes.push_back(devices);
  return sizes;
}

using Blocks = std::vector<std::vector<DeviceId>>;

/// All ops in topological order, in at most as many stages as there are blocks. Ops of a colocation group are in the
/// stage of its first op; if that follows the forward pass, in the first stage that it reads from.
std::vector<std::vector<OpId>> stages_of(const Problem& problem, const Blocks& blocks) {
  const Graph& graph = problem.graph();
  const MemoryLedger ledger{problem};
  double all = 0;
  for (const GroupId group : problem.groups()) all += static_cast<double>(ledger.need(group).held.count);
  std::vector<double> room;
  double sum = 0;
  for (const auto& block : blocks) {
    bool unlimited = false;
    room.push_back(0);
    for (const DeviceId device : block) {
      const auto& memory = problem.cluster().device(device).memory;
      unlimited |= !memory;
      if (memory) room.back() += static_cast<double>(memory->count);
    }
    if (unlimited) room.back() = 10 * all + 1;
    sum += room.back();
    if (all <= 0.9 * sum) break;
  }
  std::vector<std::vector<OpId>> stages(room.size());
  IdMap<GroupId, std::size_t> stage_of(problem.group_count(), room.size());
  std::size_t stage = 0;
  double held = 0, end = room.front();
  for (const OpId op : graph.topological_order()) {
    std::size_t& at = stage_of[problem.group(op)];
    if (at == room.size()) {
      while (stage + 1 < room.size() && held >= all * end / sum) end += room[++stage];
      at = stage;
      if (graph.phase(op) != Phase::forward)
        for (const TensorId tensor : graph.inputs(op))
          at = std::min(at, stage_of[problem.group(graph.producer(tensor))]);
      held += static_cast<double>(ledger.need(problem.group(op)).held.count);
    }
    stages[at].push_back(op);
  }
  std::erase_if(stages, [](const auto& ops) { return ops.empty(); });
  return stages;
}

class Relay {
 public:
  Relay(const Problem& problem, const RelayOptions& options) : problem_(problem), options_(options) {
    for (const OpId op : problem.ops()) work_ += problem.shortest(op);
  }

  /// The best schedule over these block sizes and all list schedulers. If there is none, throws OutOfTime or the last
  /// InputError.
  Schedule run(const std::vector<std::size_t>& sizes) {
    std::exception_ptr refusal;
    for (const std::size_t size : sizes) {
      const Cut cut = cut_for(size);
      if (best_ && shared_by(cut) >= best_outcome_.makespan) continue;
      for (std::size_t by = 0; by < options_.by.size(); ++by) {
        try {
          try_cut(cut, by);
        } catch (const InputError&) {  // devices that cannot run an op or are no part of a fabric, or no valid graph
          refusal = std::current_exception();
        } catch (const OutOfTime&) {
          if (!best_) throw;
          return std::move(*best_);
        }
      }
    }
    if (!best_) std::rethrow_exception(refusal);
    return std::move(*best_);
  }
  bool may_be_shorter(std::size_t size, Nanoseconds than) const { return shared_by(cut_for(size)) < than; }
  std::size_t size() const { return size_; }
  std::size_t by() const { return by_; }

 private:
  /// Blocks and stages; stage i runs on block i.
  struct Cut {
    std::size_t size;
    Blocks blocks;
    std::vector<std::vector<OpId>> stages;
  };
  Cut cut_for(std::size_t size) const {
    Blocks blocks = device_blocks(problem_, size);
    auto stages = stages_of(problem_, blocks);
    return {size, std::move(blocks), std::move(stages)};
  }

  /// Lower bound on the makespan on these devices.
  Nanoseconds shared_by(const Cut& cut) const {
    const std::size_t devices = std::min(cut.size * cut.stages.size(), problem_.device_count());
    return Nanoseconds{work_.count / static_cast<std::int64_t>(devices)};
  }

  void consider(const Cut& cut, std::size_t by, Schedule schedule) {
    const Outcome outcome = evaluator_.outcome(schedule);
    if (best_ && outcome >= best_outcome_) return;
    best_ = std::move(schedule);
    best_outcome_ = outcome;
    size_ = cut.size;
    by_ = by;
  }

  void try_cut(const Cut& cut, std::size_t by) {
    if (cut.size >= problem_.device_count()) return consider(cut, by, options_.by[by](problem_, options_.stop));
    if (cut.stages.size() == 1) return consider(cut, by, on_block(problem_.graph(), cut.blocks.front(), by));
    Schedule whole{.placement = Placement(problem_.op_count())};
    for (std::size_t s = 0; s < cut.stages.size(); ++s) {
      const Schedule part = on_block(piece_of(problem_.graph(), cut.stages[s]), cut.blocks[s], by);
      for (const OpId op : part.placement.ids()) whole.placement[cut.stages[s][op.index()]] = part.placement[op];
    }
    Schedule ranked{.placement = whole.placement, .policy = Policy::priority};
    ranked.priority = rank_priorities(problem_);
    consider(cut, by, std::move(whole));
    consider(cut, by, std::move(ranked));
  }

  /// The schedule of the graph on the block, with the device ids of the problem.
  Schedule on_block(const Graph& graph, const std::vector<DeviceId>& block, std::size_t by) const {
    const Problem part{graph, part_of(problem_.cluster(), block), problem_.costs()};
    Schedule schedule = options_.by[by](part, options_.stop);
    for (const OpId op : part.ops()) schedule.placement[op] = block[schedule.placement[op].index()];
    if (schedule.policy == Policy::strict) {
      IdMap<DeviceId, std::vector<OpId>> order(problem_.device_count());
      for (std::size_t i = 0; i < block.size(); ++i) order[block[i]] = std::move(schedule.order[DeviceId{i}]);
      schedule.order = std::move(order);
    }
    return schedule;
  }

  const Problem& problem_;
  const RelayOptions& options_;
  Evaluator evaluator_{problem_};
  Nanoseconds work_{0};
  std::optional<Schedule> best_;
  Outcome best_outcome_{};
  std::size_t size_ = 0, by_ = 0;
};

RelayOptions usual(const Problem& problem, RelayOptions options) {
  if (!options.by.empty()) return options;
  options.by.push_back([](const Problem& of, const auto& stop) { return m_etf(of, {.stop = stop}); });
  if (is_small(problem))
    options.by.push_back([](const Problem& of, const auto& stop) { return heft(of, {.stop = stop}); });
  return options;
}

/// On graphs with more than kFirstOps ops, sets the block size and the one list scheduler that are best on the first
/// ops. Leaves the options as they are if the first ops are no valid graph.
RelayOptions by_first_ops(const Problem& problem, RelayOptions options) {
  if (problem.op_count() <= kFirstOps || options.devices) return options;
  try {
    const Problem part = first_ops(problem, kFirstOps);
    Relay relay{part, options};
    relay.run(sizes_up_to(part.device_count(), is_small(problem)));
    options.devices = relay.size();
    options.by = {options.by[relay.by()]};
  } catch (const InputError&) {  // the first ops split ops that belong together
  }
  return options;
}

}  // namespace

Blocks device_blocks(const Problem& problem, std::size_t size) {
  const std::vector<Slowness> slow = slowness(problem);
  const std::vector<double> crossing = crossing_times(problem);
  const Cluster& cluster = problem.cluster();
  std::vector<DeviceId> left{problem.devices().begin(), problem.devices().end()};
  IdMap<DeviceId, double> away(problem.device_count(), 0);  // distance to the block
  Blocks blocks;
  while (!left.empty()) {
    const auto next = std::ranges::min_element(left, {}, [&](DeviceId device) {
      return std::tuple{slow[problem.column(device)], away[device], device};
    });
    const DeviceId device = *next;
    left.erase(next);
    if (blocks.empty() || blocks.back().size() == size) {
      blocks.emplace_back();
      away.assign(problem.device_count(), 0);
    }
    blocks.back().push_back(device);
    for (const DeviceId other : left)
      away[other] += crossing[cluster.route_class(device, other)] + crossing[cluster.route_class(other, device)];
  }
  return blocks;
}

Schedule relay(const Problem& problem, const RelayOptions& given) {
  const RelayOptions options = by_first_ops(problem, usual(problem, given));
  return Relay{problem, options}.run(options.devices ? std::vector{*options.devices}
                                                     : sizes_up_to(problem.device_count(), is_small(problem)));
}

std::optional<Schedule> relay_on_fewer(const Problem& problem, Nanoseconds than, const std::function<bool()>& stop) {
  RelayOptions options = usual(problem, {.stop = stop});
  std::vector<std::size_t> sizes = sizes_up_to(problem.device_count(), is_small(problem));
  sizes.pop_back();
  try {
    const Relay whole{problem, options};
    std::erase_if(sizes, [&](std::size_t size) { return !whole.may_be_shorter(size, than); });
    if (!sizes.empty()) options = by_first_ops(problem, std::move(options));
    if (options.devices) std::erase_if(sizes, [&](std::size_t size) { return size != *options.devices; });
    if (!sizes.empty()) return Relay{problem, options}.run(sizes);
  } catch (const InputError&) {
  } catch (const OutOfTime&) {
  }
  return std::nullopt;
}

}  // namespace trainyard
