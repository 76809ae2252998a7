#include "trainyard/place/offload/offload_placer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/baechi/m_topo.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/list/heft.hpp"
#include "trainyard/place/offload/offload_plan.hpp"
#include "trainyard/place/simple/expert.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/recompute.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {
namespace {

constexpr std::uint64_t kEvaluations = 400;

bool is_host(const Problem& problem, DeviceId device) { return problem.cluster().device(device).device_class == "cpu"; }

/// Everything on the device that it can run, the rest on the fastest device that can.
Schedule all_on(const Problem& problem, DeviceId device) {
  const auto able = group_devices(problem);
  Schedule schedule{.placement = Placement(problem.op_count())};
  for (const GroupId group : problem.groups()) {
    const bool here = std::ranges::binary_search(able[group], device);
    for (const OpId op : problem.group_ops(group))
      schedule.placement[op] = here ? device : fastest_device(problem, group, able[group]);
  }
  return schedule;
}

/// The first device of each kind of GPU; without GPUs, of each kind.
std::vector<DeviceId> kinds_of_gpus(const Problem& problem) {
  const bool any_gpu =
      !std::ranges::all_of(problem.devices(), [&](DeviceId device) { return is_host(problem, device); });
  std::vector<DeviceId> first;
  const auto is_new = [&](DeviceId device) {
    return std::ranges::none_of(first, [&](DeviceId other) {
      return problem.column(other) == problem.column(device) &&
             problem.cluster().device(other).memory == problem.cluster().device(device).memory;
    });
  };
  for (const DeviceId device : problem.devices())
    if (is_host(problem, device) != any_gpu && is_new(device)) first.push_back(device);
  return first;
}

/// The nearest host of each other device; none if there is no host.
IdMap<DeviceId, DeviceId> nearest_hosts(const Problem& problem) {
  IdMap<DeviceId, DeviceId> hosts(problem.device_count(), DeviceId::none());
  const Graph& graph = problem.graph();
  if (graph.tensor_count() == 0) return hosts;
  const auto all = graph.tensors();
  const TensorId largest = *std::max_element(all.begin(), all.end(),
                                             [&](TensorId a, TensorId b) { return graph.bytes(a) < graph.bytes(b); });
  for (const DeviceId device : problem.devices()) {
    std::optional<Nanoseconds> least;
    for (const DeviceId host : problem.devices()) {
      if (is_host(problem, device) || !is_host(problem, host)) continue;
      const Nanoseconds time =
          problem.transfer_time(largest, device, host) + problem.transfer_time(largest, host, device);
      if (least && time >= *least) continue;
      least = time;
      hosts[device] = host;
    }
  }
  return hosts;
}

struct Candidate {
  Schedule schedule;
  Outcome outcome;
};

/// Chooses the tensors that leave, for one placement.
class OffloadSearch {
 public:
  OffloadSearch(Problem problem, const Schedule& start, const IdMap<DeviceId, DeviceId>& hosts, const Effort& effort,
                std::uint64_t& evaluations)
      : problem_(std::move(problem)),
        hosts_(hosts),
        effort_(effort),
        evaluations_(evaluations),
        placement_(start.placement),
        timeline_(Simulation{problem_}.timeline(start)),
        plan_(problem_, placement_, timeline_),
        allowed_(plan_.tensors().size(), true) {}

  const OffloadPlan& plan() const { return plan_; }
  const std::optional<Candidate>& best() const { return best_; }

  void choose() {
    const std::vector<Offloadable>& tensors = plan_.tensors();
    std::vector<std::size_t> list(tensors.size());
    std::iota(list.begin(), list.end(), std::size_t{0});
    const auto by = [&](auto worth) {
      std::vector<std::size_t> sorted = list;
      sort_by_descending(sorted, [&](std::size_t t) { return worth(tensors[t]); });
      return sorted;
    };
    try_first(list);
    try_first(by([&](const Offloadable& each) {
      const DeviceId host = hosts_[each.device];
      return (each.idle - problem_.transfer_time(each.tensor, each.device, host) -
              problem_.transfer_time(each.tensor, host, each.device))
          .count;
    }));
    try_first(by([](const Offloadable& each) { return each.bytes.count; }));
  }

  void improve(std::uint64_t seed) {
    if (!best_) return;
    for (bool better = true; better;) {
      better = false;
      for (std::size_t t = 0; t < allowed_.size() && !effort_.over(evaluations_); ++t) {
        if (!used_[t]) continue;
        std::vector<bool> other = allowed_;
        other[t] = false;
        better |= take(other);
      }
    }
    // Either one of a pair may be no tensor.
    constexpr std::size_t kDraws = 4;  // of each pair, on average and without success, before it ends
    const std::size_t none = allowed_.size();
    Random random{seed};
    for (std::size_t failed = 0, most = 1; failed < most && !effort_.over(evaluations_);) {
      std::vector<std::size_t> leave{none}, stay{none};
      for (std::size_t t = 0; t < none; ++t) (used_[t] ? leave : stay).push_back(t);
      most = kDraws * leave.size() * stay.size();
      const std::size_t out = leave[static_cast<std::size_t>(random.below(leave.size()))];
      const std::size_t in = stay[static_cast<std::size_t>(random.below(stay.size()))];
      std::vector<bool> other = used_;
      if (out != none) other[out] = false;
      if (in != none) other[in] = true;
      failed = other != used_ && take(other) ? 0 : failed + 1;
    }
  }

 private:
  /// Tries as few of the first tensors of the list as suffice, and all of them.
  void try_first(const std::vector<std::size_t>& list) {
    const auto first = [&](std::size_t count) {
      std::vector<bool> allowed(list.size(), false);
      for (std::size_t i = 0; i < count; ++i) allowed[list[i]] = true;
      return allowed;
    };
    const IdMap<DeviceId, Bytes> none(problem_.device_count(), Bytes{0});
    if (!plan_.plan(first(list.size()), none)) return;
    std::size_t low = 0, high = list.size();  // `high` is enough
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (plan_.plan(first(middle), none))
        high = middle;
      else
        low = middle + 1;
    }
    take(first(high));
    if (high < list.size()) take(first(list.size()));
  }

  /// Evaluates the plan with these tensors. Returns whether it is better than the best so far.
  bool take(const std::vector<bool>& allowed) {
    // Transfers that arrive at other times than in the given run take memory, which is then left free.
    IdMap<DeviceId, Bytes> less(problem_.device_count(), Bytes{0});
    constexpr int kRounds = 4;
    bool better = false, over = true;
    for (int round = 0; round < kRounds && over && (round == 0 || !effort_.over(evaluations_)); ++round) {
      const auto leaving = plan_.plan(allowed, less);
      if (!leaving) break;
      const Problem rewritten = apply_rewrites(problem_, {leaving->rewrites.begin(), leaving->rewrites.end()});
      Schedule schedule = plan_.schedule(rewritten, *leaving, hosts_);
      Simulation simulation{rewritten};
      ++evaluations_;
      const MemoryPeaks& peaks = simulation.peaks(schedule);
      const Outcome outcome{excess_of(rewritten, peaks), peaks.makespan};
      over = outcome.excess > Bytes{0};
      for (const DeviceId device : problem_.devices())
        if (const auto capacity = problem_.cluster().device(device).memory)
          less[device] += std::max(Bytes{0}, peaks.peak[device] - *capacity);
      if (best_ && outcome >= best_->outcome) continue;
      better = true;
      best_ = Candidate{std::move(schedule), outcome};
      allowed_ = allowed;
      used_.assign(allowed.size(), false);
      for (const std::size_t t : leaving->tensors) used_[t] = true;
    }
    return better;
  }

  const Problem problem_;
  const IdMap<DeviceId, DeviceId>& hosts_;
  const Effort& effort_;
  std::uint64_t& evaluations_;
  const Placement placement_;
  const Timeline timeline_;
  const OffloadPlan plan_;
  std::vector<bool> allowed_, used_;
  std::optional<Candidate> best_;
};

/// A problem and a schedule of it to start from.
struct OffloadStart {
  Problem problem;
  Schedule schedule;
};

/// Forward ops to recompute: ops bound by memory access, joined to the op before if no other forward op reads from
/// that; or each block of layers.
enum class RunAgain { cheap, blocks };
std::vector<std::vector<OpId>> segments_of(const Graph& graph, RunAgain what) {
  constexpr double kMostFlops = 4;  // per byte
  const Layers layers = find_layers(graph);
  std::map<std::string_view, std::size_t> blocks;
  IdMap<OpId, std::size_t> segment(graph.op_count(), graph.op_count());
  std::vector<std::vector<OpId>> segments;
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) != Phase::forward || graph.type(op) == "Input" || graph.collective(op)) continue;
    std::size_t at = segments.size();
    if (what == RunAgain::blocks) {
      at = blocks.emplace(block_of(layers.names[layers.of[op].index()]), at).first->second;
    } else {
      if (graph.flops(op).value > kMostFlops * static_cast<double>(graph.bytes_accessed(op).count)) continue;
      for (const TensorId tensor : graph.inputs(op)) {
        const auto readers = graph.consumers(tensor);
        const auto forward = std::ranges::count_if(readers, [&](OpId r) { return graph.phase(r) == Phase::forward; });
        const std::size_t before = segment[graph.producer(tensor)];
        if (forward == 1 && before < graph.op_count()) at = before;
      }
    }
    if (at == segments.size()) segments.emplace_back();
    segments[at].push_back(op);
    segment[op] = at;
  }
  return segments;
}

/// Sets of segments to recompute together: the last quarters of the cheap segments; of the blocks; of the blocks, with
/// the cheap segments outside them.
std::vector<std::vector<std::vector<OpId>>> choices_of_segments(const Graph& graph) {
  const auto cheap = segments_of(graph, RunAgain::cheap), blocks = segments_of(graph, RunAgain::blocks);
  const auto last = [](const std::vector<std::vector<OpId>>& segments, std::size_t quarters) {
    const std::size_t left = segments.size() - (segments.size() * quarters + 3) / 4;
    return std::vector<std::vector<OpId>>{segments.begin() + static_cast<std::ptrdiff_t>(left), segments.end()};
  };
  std::vector<std::vector<std::vector<OpId>>> choices;
  for (std::size_t quarters = 1; quarters <= 4; ++quarters) choices.push_back(last(cheap, quarters));
  for (std::size_t quarters = 1; quarters <= 4; ++quarters) choices.push_back(last(blocks, quarters));
  for (std::size_t quarters = 1; quarters <= 3; ++quarters) {
    auto both = last(blocks, quarters);
    IdMap<OpId, bool> in_blocks(graph.op_count(), false);
    for (const auto& block : both)
      for (const OpId op : block) in_blocks[op] = true;
    for (std::vector<OpId> segment : cheap) {
      std::erase_if(segment, [&](OpId op) { return in_blocks[op]; });
      if (!segment.empty()) both.push_back(std::move(segment));
    }
    choices.push_back(std::move(both));
  }
  return choices;
}

/// The start with these segments recomputed where they ran; nothing if none of their ops is recomputed.
std::optional<OffloadStart> recomputing(const Problem& problem, const Schedule& start,
                                        std::span<const std::vector<OpId>> segments) {
  const Graph& graph = problem.graph();
  RecomputingGraph again = recompute(graph, segments);
  if (again.graph.op_count() == graph.op_count()) return std::nullopt;
  std::vector<Rewrite> rewrites = problem.rewrites();
  for (const std::vector<OpId>& segment : segments) {
    Recompute named;
    for (const OpId op : segment) named.ops.emplace_back(graph.name(op));
    rewrites.emplace_back(std::move(named));
  }
  Schedule schedule{.placement = Placement(again.graph.op_count())};
  for (const OpId op : again.graph.ops()) schedule.placement[op] = start.placement[again.original[op]];
  schedule.rewrites = rewrites;
  return OffloadStart{problem.with_graph(std::move(again.graph), std::move(rewrites)), std::move(schedule)};
}

[[noreturn]] void refuse_no_host(const Problem& problem) {
  throw NoPlacementError(
      {.code = "no-host",
       .message = fmt::format("no placement fits, and cluster '{}' has no device of class cpu to offload to",
                              problem.cluster().name()),
       .help =
           "use a cluster with a host, for example cpu-v100, or a placer that recomputes activations: pipeline, plan"});
}

[[noreturn]] void refuse_out_of_memory(const Problem& problem, const std::vector<OffloadPlan::Excess>& excess,
                                       Bytes least) {
  std::string message = fmt::format("in the simulation it exceeds the memory by {}", format_bytes(least));
  if (!excess.empty()) {
    const auto& fewest = *std::ranges::min_element(excess, {}, &OffloadPlan::Excess::bytes);
    const Device& device = problem.cluster().device(fewest.device);
    message =
        fmt::format("while op '{}' runs, {} needs {} more than its {}, even with everything offloaded that can be",
                    fewest.op, device.name, format_bytes(fewest.bytes), format_bytes(*device.memory));
  }
  throw NoPlacementError({.code = "out-of-memory",
                          .message = "no placement fits by offloading: " + message,
                          .help = "use a smaller batch, or more devices"});
}

}  // namespace

std::optional<Nanoseconds> offload_goal(const Problem& problem) {
  const auto hosts = std::ranges::count_if(problem.devices(), [&](DeviceId id) { return is_host(problem, id); });
  if (hosts == 0 || static_cast<std::size_t>(hosts) == problem.device_count()) return std::nullopt;
  Evaluator evaluator{problem};
  Nanoseconds least = evaluator.outcome(place_expert(problem)).makespan;
  for (const DeviceId device : kinds_of_gpus(problem)) {
    const Outcome outcome = evaluator.outcome(all_on(problem, device));
    if (outcome.excess == Bytes{0}) return std::nullopt;
    least = std::min(least, outcome.makespan);
  }
  return least;
}

Schedule place_offload(const Problem& problem, const OffloadOptions& offloading, const PlaceOptions& options) {
  Budget budget = options.budget;
  if (!budget.given()) budget.evaluations = kEvaluations;
  const Effort effort{budget, options.stop};
  std::vector<Schedule> starts;
  const auto add = [&](Schedule start) {
    start.rewrites = problem.rewrites();
    if (std::ranges::find(starts, start.placement, &Schedule::placement) == starts.end())
      starts.push_back(std::move(start));
  };
  for (const DeviceId device : kinds_of_gpus(problem)) add(all_on(problem, device));
  if (!effort.late()) add(place_expert(problem));
  try {
    if (!effort.late()) add(heft(problem, {.stop = [&effort] { return effort.late(); }}));
  } catch (const OutOfTime&) {
    add(m_topo(problem));  // one pass over the ops, within the memories
  }

  std::uint64_t evaluations = 0;
  std::optional<Candidate> best;
  const auto offer = [&](const Candidate& candidate) {
    if (!best || candidate.outcome < best->outcome) best = candidate;
  };
  std::vector<OffloadStart> too_large;
  const auto simulate_start = [&](OffloadStart start) {
    const Outcome outcome = Evaluator{start.problem}.outcome(start.schedule);
    ++evaluations;
    offer({start.schedule, outcome});
    if (outcome.excess > Bytes{0}) too_large.push_back(std::move(start));
  };
  for (const Schedule& start : starts) simulate_start({problem, start});
  const auto enough = [&] { return effort.late() || (best->outcome.excess == Bytes{0} && effort.over(evaluations)); };
  const std::size_t as_they_are = options.rewrites && offloading.recompute ? too_large.size() : 0;
  for (std::size_t i = 0; i < as_they_are; ++i)
    for (const auto& segments : choices_of_segments(problem.graph())) {
      if (enough()) break;
      if (auto again = recomputing(problem, too_large[i].schedule, segments)) simulate_start(std::move(*again));
    }

  if (options.rewrites && !too_large.empty()) {
    const IdMap<DeviceId, DeviceId> hosts = nearest_hosts(problem);
    const bool any_host = std::ranges::any_of(hosts, [](DeviceId host) { return !host.is_none(); });
    if (!any_host && best->outcome.excess > Bytes{0}) refuse_no_host(problem);
    std::vector<OffloadPlan::Excess> excess;
    std::unique_ptr<OffloadSearch> leader;
    for (const OffloadStart& start : too_large) {
      if (!any_host || enough()) break;
      auto search = std::make_unique<OffloadSearch>(start.problem, start.schedule, hosts, effort, evaluations);
      search->choose();
      if (const auto over = search->plan().excess()) excess.push_back(*over);
      if (search->best() && (!leader || search->best()->outcome < leader->best()->outcome)) leader = std::move(search);
    }
    if (leader) {
      leader->improve(options.seed);
      offer(*leader->best());
    }
    if (best->outcome.excess > Bytes{0} && effort.late()) throw OutOfTime{};
    if (best->outcome.excess > Bytes{0}) refuse_out_of_memory(problem, excess, best->outcome.excess);
  }
  best->schedule.search = Search{.evaluations = evaluations};
  return std::move(best->schedule);
}

}  // namespace trainyard
