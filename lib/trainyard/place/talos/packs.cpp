#include "trainyard/place/talos/packs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/disjoint_sets.hpp"
#include "trainyard/place/kit/groups.hpp"

namespace trainyard {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// The op's least time on the reference and elsewhere; kNever if it cannot run there.
std::pair<Nanoseconds, Nanoseconds> times_of(const Problem& problem, const std::vector<bool>& reference, OpId op) {
  Nanoseconds slow = Problem::kNever, fast = Problem::kNever;
  for (std::size_t c = 0; c < reference.size(); ++c) {
    const Nanoseconds time = problem.durations()[op.index() * reference.size() + c];
    if (time == Problem::kNever) continue;
    Nanoseconds& least = reference[c] ? slow : fast;
    if (least == Problem::kNever || time < least) least = time;
  }
  return {slow, fast};
}

std::vector<OpId> ops_of(const Problem& problem, const Models& models, ModelId model) {
  std::vector<OpId> ops;
  for (const OpId op : problem.graph().topological_order())
    if (models.of[op] == model) ops.push_back(op);
  return ops;
}

void check_inputs(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups) {
  check_models(models, problem.op_count());
  check_entries("the speedups", speedups.size(), problem.op_count(), "ops");
}

/// Groups that must be on one device, merged step by step.
class Units {
 public:
  explicit Units(const Problem& problem) : sets_(problem.group_count()), packs_(problem.group_count(), 0) {
    const auto able = group_devices(problem);
    for (const GroupId group : problem.groups()) devices_.emplace_back(able[group].begin(), able[group].end());
  }

  std::size_t find(GroupId group) { return sets_.find(group.index()); }
  std::uint32_t& packs(std::size_t unit) { return packs_[unit]; }
  std::vector<DeviceId> common(std::size_t a, std::size_t b) const {
    std::vector<DeviceId> both;
    std::ranges::set_intersection(devices_[a], devices_[b], std::back_inserter(both));
    return both;
  }
  void join(std::size_t a, std::size_t b, std::vector<DeviceId> devices) {
    sets_.join(a, b);
    packs_[std::min(a, b)] += packs_[std::max(a, b)];
    devices_[std::min(a, b)] = std::move(devices);
  }

 private:
  DisjointSets sets_;
  std::vector<std::uint32_t> packs_;  // number of packs with ops of the unit
  std::vector<std::vector<DeviceId>> devices_;
};

class Packing {
 public:
  Packing(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups, const PackOptions& options)
      : problem_(problem), models_(models), speedups_(speedups), options_(options), units_(problem) {
    packs_.of.assign(problem.op_count(), PackId::none());
  }

  Packs run() {
    for (const OpId op : problem_.graph().topological_order()) place(op);
    std::vector<std::pair<PackId, OpId>> members;
    for (const OpId op : problem_.graph().topological_order()) members.emplace_back(packs_.of[op], op);
    packs_.ops = CompressedRows<PackId, OpId>(open_.size(), members);
    number_units();
    return std::move(packs_);
  }

 private:
  struct Open {
    OpId first;
    std::uint32_t depth;
    std::vector<Nanoseconds> times;  // by column; kNever if it cannot run
  };

  void place(OpId op) {
    // The deepest pack that the op reads from or comes after, and whether it is the only one of that depth.
    PackId deepest = PackId::none();
    bool alone = true;
    std::uint32_t depth = 0;
    const auto look_at = [&](OpId before) {
      const PackId pack = packs_.of[before];
      if (pack == deepest) return;
      const std::uint32_t there = open_[pack.index()].depth;
      if (deepest.is_none() || there > depth) {
        deepest = pack;
        depth = there;
        alone = true;
      } else if (there == depth) {
        alone = false;
      }
    };
    const Graph& graph = problem_.graph();
    for (const TensorId tensor : graph.inputs(op)) look_at(graph.producer(tensor));
    for (const OpId earlier : graph.after(op)) look_at(earlier);
    if (!deepest.is_none() && alone && join(op, deepest)) return;
    packs_.of[op] = PackId{open_.size()};
    Open pack{.first = op, .depth = deepest.is_none() ? 0 : depth + 1, .times = {}};
    for (std::size_t c = 0; c < problem_.column_count(); ++c) pack.times.push_back(time(op, c));
    open_.push_back(std::move(pack));
    ++units_.packs(units_.find(problem_.group(op)));
  }

  Nanoseconds time(OpId op, std::size_t column) const {
    return problem_.durations()[op.index() * problem_.column_count() + column];
  }

  bool join(OpId op, PackId id) {
    Open& pack = open_[id.index()];
    if (models_.of[op] != models_.of[pack.first] || !alike(speedups_[op], speedups_[pack.first])) return false;
    std::optional<Nanoseconds> least;
    for (std::size_t c = 0; c < pack.times.size(); ++c) {
      if (pack.times[c] == Problem::kNever || time(op, c) == Problem::kNever) continue;
      const Nanoseconds together = options_.each ? time(op, c) : pack.times[c] + time(op, c);
      if (!least || together < *least) least = together;
    }
    if (!least || *least >= options_.most) return false;
    const std::size_t unit = units_.find(problem_.group(pack.first)), own = units_.find(problem_.group(op));
    if (unit != own) {
      if (units_.packs(own) > 0) return false;
      std::vector<DeviceId> common = units_.common(unit, own);
      if (common.empty()) return false;
      units_.join(unit, own, std::move(common));
    }
    for (std::size_t c = 0; c < pack.times.size(); ++c)
      pack.times[c] = pack.times[c] == Problem::kNever || time(op, c) == Problem::kNever ? Problem::kNever
                                                                                         : pack.times[c] + time(op, c);
    packs_.of[op] = id;
    return true;
  }

  bool alike(double speedup, double first) const {
    if (std::isinf(speedup) || std::isinf(first)) return speedup == first;
    return speedup == first || (speedup > options_.low * first && speedup < options_.high * first);
  }

  void number_units() {
    constexpr auto kUnnumbered = static_cast<std::uint32_t>(-1);
    std::vector<std::uint32_t> number(problem_.group_count(), kUnnumbered);
    for (std::size_t p = 0; p < packs_.size(); ++p) {
      const std::size_t root = units_.find(problem_.group(packs_.ops[PackId{p}].front()));
      if (number[root] == kUnnumbered) {
        number[root] = static_cast<std::uint32_t>(packs_.unit_groups.size());
        packs_.unit_groups.emplace_back();
      }
      packs_.unit.push_back(number[root]);
    }
    for (const GroupId group : problem_.groups()) packs_.unit_groups[number[units_.find(group)]].push_back(group);
  }

  const Problem& problem_;
  const Models& models_;
  const IdMap<OpId, double>& speedups_;
  const PackOptions& options_;
  Units units_;
  std::vector<Open> open_;  // by PackId
  Packs packs_;
};

}  // namespace

std::vector<bool> reference_columns(const Problem& problem) {
  const std::size_t columns = problem.column_count();
  std::vector<bool> is_cpu(columns, false);
  for (const DeviceId device : problem.devices())
    if (problem.cluster().device(device).device_class == "cpu") is_cpu[problem.column(device)] = true;
  const auto cpus = static_cast<std::size_t>(std::ranges::count(is_cpu, true));
  if (cpus > 0 && cpus < columns) return is_cpu;
  // The slowest kind by the ops that every kind can run.
  const std::vector<double> times = common_times(problem);
  std::vector<bool> slow(columns, false);
  slow[static_cast<std::size_t>(std::ranges::max_element(times) - times.begin())] = true;
  return slow;
}

IdMap<OpId, double> op_speedups(const Problem& problem) {
  const std::vector<bool> reference = reference_columns(problem);
  IdMap<OpId, double> speedups(problem.op_count(), 1);
  if (reference.size() == 1) return speedups;
  for (const OpId op : problem.ops()) {
    const auto [slow, fast] = times_of(problem, reference, op);
    if (slow == Problem::kNever)
      speedups[op] = kInfinite;
    else if (fast == Problem::kNever)
      speedups[op] = 0;
    else if (slow.count > 0 || fast.count > 0)
      speedups[op] = fast.count > 0 ? static_cast<double>(slow.count) / static_cast<double>(fast.count) : kInfinite;
  }
  return speedups;
}

IdMap<ModelId, double> model_speedups(const Problem& problem, const Models& models) {
  check_models(models, problem.op_count());
  const std::vector<bool> reference = reference_columns(problem);
  IdMap<ModelId, double> slow(models.size(), 0), fast(models.size(), 0);
  for (const OpId op : problem.ops()) {
    const auto [slow_time, fast_time] = times_of(problem, reference, op);
    if (slow_time == Problem::kNever || fast_time == Problem::kNever) continue;
    slow[models.of[op]] += static_cast<double>(slow_time.count);
    fast[models.of[op]] += static_cast<double>(fast_time.count);
  }
  for (const ModelId model : slow.ids()) slow[model] = fast[model] > 0 ? slow[model] / fast[model] : 1;
  return slow;
}

double model_affinity(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups, ModelId a,
                      ModelId b) {
  check_inputs(problem, models, speedups);
  const std::vector<OpId> ops_a = ops_of(problem, models, a), ops_b = ops_of(problem, models, b);
  double distance = 0;
  std::size_t compared = 0;
  for (std::size_t k = 0; k < std::min(ops_a.size(), ops_b.size()); ++k) {
    const double difference = std::abs(speedups[ops_a[k]] - speedups[ops_b[k]]);
    if (!std::isfinite(difference)) continue;
    distance += difference;
    ++compared;
  }
  if (compared > 0) distance /= static_cast<double>(compared);
  std::set<std::string> types_a, types_b, common, all;
  for (const OpId op : ops_a) types_a.insert(problem.graph().type(op));
  for (const OpId op : ops_b) types_b.insert(problem.graph().type(op));
  std::ranges::set_intersection(types_a, types_b, std::inserter(common, common.end()));
  std::ranges::set_union(types_a, types_b, std::inserter(all, all.end()));
  if (common.empty()) return kInfinite;
  return distance * static_cast<double>(all.size()) / static_cast<double>(common.size());
}

Packs pack_ops(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups,
               const PackOptions& options) {
  check_inputs(problem, models, speedups);
  return Packing{problem, models, speedups, options}.run();
}

}  // namespace trainyard
