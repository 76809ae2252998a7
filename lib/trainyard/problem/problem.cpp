#include "trainyard/problem/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/cost/cost_model.hpp"

namespace trainyard {
namespace {

/// Assigns devices that no op can distinguish to one column, and returns the first device of each. An op can
/// distinguish a device by name if it gives a time for that name or is restricted to it.
std::vector<DeviceId> representatives(const Graph& graph, const Cluster& cluster, const Costs& costs,
                                      IdMap<DeviceId, std::uint32_t>& column) {
  std::vector<std::string> told_by_name;
  for (const OpId op : graph.ops()) {
    for (const GivenTime& given : graph.given_times(op)) told_by_name.push_back(given.on);
    for (const std::string& kind : graph.device_kinds(op)) told_by_name.push_back(kind);
    if (told_by_name.size() > 4096) {  // keep the list short on graphs of a million ops
      std::ranges::sort(told_by_name);
      told_by_name.erase(std::unique(told_by_name.begin(), told_by_name.end()), told_by_name.end());
    }
  }
  std::ranges::sort(told_by_name);
  std::vector<DeviceId> result;
  column.assign(cluster.device_count(), 0);
  for (const DeviceId id : cluster.devices()) {
    const Device& device = cluster.device(id);
    const bool named = std::ranges::binary_search(told_by_name, device.name);
    const auto same = named ? result.end() : std::ranges::find_if(result, [&](DeviceId other_id) {
      const Device& other = cluster.device(other_id);
      return !std::ranges::binary_search(told_by_name, other.name) && device.kind == other.kind &&
             device.device_class == other.device_class && costs.alike(device, other);
    });
    column[id] = static_cast<std::uint32_t>(same - result.begin());
    if (same == result.end()) result.push_back(id);
  }
  return result;
}

Finding no_device(const Graph& graph, const Cluster& cluster, const Costs& costs, OpId op) {
  const auto listed = [](const auto& all, const auto& name) {
    constexpr std::size_t kMostShown = 10;
    std::string text;
    for (std::size_t i = 0; i < std::min(all.size(), kMostShown); ++i)
      text += (i > 0 ? ", " : "") + std::invoke(name, all[i]);
    return all.size() > kMostShown ? fmt::format("{} and {} more", text, all.size() - kMostShown) : text;
  };
  const std::string wanted = listed(graph.device_kinds(op), std::identity{});
  const std::string given = listed(graph.given_times(op), &GivenTime::on);
  Finding finding{"no-device",
                  fmt::format("no device of cluster '{}' can run op '{}'", cluster.name(), graph.name(op)),
                  "",
                  fmt::format("/ops/{}", op.index()),
                  {}};
  if (!graph.device_kinds(op).empty()) {
    finding.message += fmt::format(": its \"device_kinds\" are {}", wanted.empty() ? "''" : wanted);
    finding.help = "use a cluster with such a device, or extend the op's \"device_kinds\"";
  } else if (!costs.target<CostModel>()) {
    finding.message += ": its costs exclude every device";
    finding.help = "let the costs give a time on one of the devices";
  } else if (!given.empty()) {
    finding.message += fmt::format(
        ": it gives times for {} only, without \"flops\" or \"bytes_accessed\" to estimate others from", given);
    finding.help = "add a time for a device, kind or class of this cluster to \"times_ns\"";
  } else {
    finding.message += ": the devices' speeds are unknown, and the op gives no times";
    finding.help = "give the devices a known kind, or a peak and a memory bandwidth; or give the op \"times_ns\"";
  }
  return finding;
}

/// Index of the source in `known`; adds a new source.
std::uint8_t source_index(std::vector<std::pair<std::string, Evidence>>& known, const CostSource& source) {
  const auto at = std::ranges::find(known, source.name, [](const auto& one) { return std::string_view{one.first}; });
  const auto index = static_cast<std::uint8_t>(at - known.begin());
  if (at == known.end()) {
    if (known.size() > std::numeric_limits<std::uint8_t>::max())
      refuse("costs", fmt::format("the costs name more than {} sources", known.size()),
             "name the method that gave the times, not the ops");
    known.emplace_back(source.name, source.evidence);
  } else if (at->second != source.evidence) {
    refuse("costs",
           fmt::format("the costs call the times of '{}' both {} and {}", source.name, name_of(at->second),
                       name_of(source.evidence)),
           "give each source one kind of evidence");
  }
  return index;
}

}  // namespace

Problem Problem::with_graph(Graph graph, std::vector<Rewrite> rewrites, Checkpoint checkpoint) const {
  return {std::move(graph), data_->cluster, data_->costs, std::move(rewrites), std::move(checkpoint)};
}

Problem Problem::with_machine(Cluster cluster, Costs costs) const {
  return {data_->graph, std::move(cluster), std::move(costs), data_->rewrites, Checkpoint{}};
}

/// Fills the dense arrays of a graph, a cluster and their costs.
class Problem::Compilation {
 public:
  Compilation(Data& data, Checkpoint checkpoint)
      : data_(data), graph_(data.graph), cluster_(data.cluster), checkpoint_(std::move(checkpoint)) {
    if (graph_.op_count() == 0)
      refuse("empty-graph", "a problem's graph has no ops",
             "make a graph with GraphBuilder, training_graph() or read_graph()");
    if (cluster_.device_count() == 0)
      refuse("empty-cluster", "a problem's cluster has no devices",
             "make a cluster with make_cluster(), which also takes presets");
    for (const DeviceId device : cluster_.devices()) longest_gap_ = std::max(longest_gap_, cluster_.device(device).gap);
    add_op_times();
    for (const ChannelId channel : cluster_.channels())
      longest_gap_ = std::max(longest_gap_, cluster_.channel(channel).gap);
    add_transfer_times();
    set_horizon();
    add_groups();
    if (!findings_.empty()) throw InputError(std::move(findings_));
  }

 private:
  __extension__ using Wide = __int128;

  void report(Finding finding) {
    if (findings_.size() < kMostFindings) findings_.push_back(std::move(finding));
  }

  void add_op_times() {
    const auto columns = representatives(graph_, cluster_, data_.costs, data_.column);
    data_.columns = columns.size();
    data_.durations.resize(graph_.op_count() * columns.size(), kNever);
    for (const CostSource& source : kStandardSources) data_.sources.emplace_back(source.name, source.evidence);
    data_.source.resize(graph_.op_count() * columns.size());
    for (const OpId op : graph_.ops()) {
      checkpoint_(columns.size());
      const auto row = [&](OpId of) { return of.index() * columns.size(); };
      const auto begin = data_.durations.begin();
      if (graph_.collective(op)) {
        std::fill_n(begin + static_cast<std::ptrdiff_t>(row(op)), columns.size(), Nanoseconds{0});
      } else if (const OpId like = earlier_alike(op); like != op) {
        for (std::size_t k = 0; k < columns.size(); ++k) {
          data_.durations[row(op) + k] = data_.durations[row(like) + k];
          data_.source[row(op) + k] = data_.source[row(like) + k];
          if (!data_.sensitivities.empty()) data_.sensitivities[row(op) + k] = data_.sensitivities[row(like) + k];
        }
      } else {
        for (std::size_t k = 0; k < columns.size(); ++k) ask_for(op, columns[k], row(op) + k);
      }
      Nanoseconds longest = kNever;
      std::uint32_t most_sensitive = 0;
      for (std::size_t cell = row(op); cell < row(op) + columns.size(); ++cell) {
        longest = std::max(longest, data_.durations[cell]);
        if (!data_.sensitivities.empty()) most_sensitive = std::max(most_sensitive, data_.sensitivities[cell]);
      }
      if (longest == kNever) report(no_device(graph_, cluster_, data_.costs, op));
      total_ += longest.count + longest_gap_.count;
      // Worst case: copies use all of the memory bandwidth. The last terms bound the rounding of rates to whole
      // numbers.
      if (most_sensitive > 0)
        total_ += static_cast<Wide>(longest.count) * most_sensitive / 1'000 + (longest.count >> 10) + 1;
    }
  }

  /// The time of the op on the device, its source and its sensitivity to copies, into the cell of the op's row.
  void ask_for(OpId op, DeviceId on, std::size_t cell) {
    const Device& device = cluster_.device(on);
    const auto cost = data_.costs.op_cost(graph_, op, device);
    if (!cost) return;
    data_.durations[cell] = cost->time;
    data_.source[cell] = source_index(data_.sources, cost->source);
    if (cluster_.device_count() == 1) return;  // a single device has no copies
    const std::uint32_t sensitivity = data_.costs.copy_sensitivity(graph_, op, device);
    if (sensitivity == 0) return;
    data_.sensitivities.resize(data_.durations.size());
    data_.sensitivities[cell] = sensitivity;
  }

  /// The last op of the same type and signature that was asked for, if the costs call it alike, else the op itself:
  /// copies of an op in microbatches and replicas cost the same.
  OpId earlier_alike(OpId op) {
    const auto [at, first] = asked_.try_emplace({&graph_.type(op), &graph_.signature(op)}, op);
    if (!first && data_.costs.alike(graph_, at->second, op)) return at->second;
    return at->second = op;
  }

  /// Stores latencies by route class, and byte times by tensor and distinct bandwidth or measured curve.
  void add_transfer_times() {
    std::map<std::pair<double, std::uint32_t>, std::uint32_t> rates;
    std::vector<RouteClass> rate_routes;
    Nanoseconds longest_latency{0};
    for (const RouteClass& routes : cluster_.route_classes()) {
      const Nanoseconds latency = data_.costs.latency(routes);
      longest_latency = std::max(longest_latency, latency);
      const auto [known, added] =
          rates.try_emplace({routes.bandwidth.value, routes.curve}, static_cast<std::uint32_t>(rates.size()));
      if (added) rate_routes.push_back(routes);
      data_.transfers.push_back({latency, known->second});
    }
    data_.rates = rate_routes.size();
    data_.byte_times.reserve(graph_.tensor_count() * rate_routes.size());
    for (const TensorId tensor : graph_.tensors()) {
      checkpoint_(rate_routes.size());
      Nanoseconds longest{0};
      for (const RouteClass& route : rate_routes) {
        data_.byte_times.push_back(data_.costs.byte_time(graph_.bytes(tensor), route));
        longest = std::max(longest, data_.byte_times.back());
      }
      // Fair transfers end at whole nanoseconds, so each can take up to 1 ns longer.
      const std::int64_t rounding = cluster_.has_fair_channels() ? 1 : 0;
      const auto copies = static_cast<Wide>(std::min(graph_.consumers(tensor).size(), cluster_.device_count() - 1));
      total_ += copies * (static_cast<Wide>(longest.count) + longest_latency.count + longest_gap_.count + rounding);
    }
    if (graph_.has_collectives()) add_collective_times(rate_routes, longest_latency);
  }

  /// Adds an upper bound for each collective of n devices: 2 n steps, in each of which one channel carries all hops.
  void add_collective_times(const std::vector<RouteClass>& rate_routes, Nanoseconds longest_latency) {
    std::map<std::tuple<CollectiveKind, Bytes, std::size_t>, Wide> known;
    for (const OpId op : graph_.ops()) {
      const CollectiveTask* task = graph_.collective(op);
      if (!task) continue;
      const std::size_t most =
          std::min(cluster_.device_count(), task->ranks * (graph_.after(op).size() + graph_.before(op).size()));
      const auto [at, added] = known.try_emplace({task->kind, task->bytes, most}, longest_gap_.count);
      if (added) {
        Nanoseconds longest{0};
        for (const RouteClass& route : rate_routes)
          longest = std::max(longest, data_.costs.byte_time(task->bytes, route) + Nanoseconds{1});
        const auto n = static_cast<Wide>(most);
        at->second += 2 * n * (n * (longest_latency.count + 1) + longest.count);
        for (std::size_t ranks = 2; ranks <= most; ++ranks)
          if (const auto time = data_.costs.collective_time(task->kind, task->bytes, ranks, 1))
            at->second += time->count;
      }
      total_ += at->second;
    }
  }

  void set_horizon() {
    if (cluster_.has_fair_channels()) total_ += total_ >> 10;  // rates are whole units: at most a thousandth in total
    if (findings_.empty() && total_ > kLongestTime.count)
      report({"too-large",
              fmt::format("the times of graph '{}' on cluster '{}' can add up to more than 2^62 ns (146 years)",
                          graph_.name(), cluster_.name()),
              "check the units of the largest times, sizes and gaps",
              "",
              {}});
    else
      data_.horizon = Nanoseconds{static_cast<std::int64_t>(total_)};
  }

  void add_groups() {
    data_.groups = ColocationGroups{graph_};
    for (std::size_t group = 0; group < data_.groups.count(); ++group) {
      const auto ops = data_.groups.ops(GroupId{group});
      if (ops.size() == 1 || share_a_device(ops)) continue;
      report({"colocation",
              fmt::format("the {} ops of colocation group '{}' must share a device, but no device can run them all",
                          ops.size(), graph_.colocation_group(ops.front())),
              "widen their \"device_kinds\", or take some out of the group",
              fmt::format("/ops/{}/colocate", ops.front().index()),
              {}});
    }
  }

  /// Whether some device can run all ops. Also true if one of them cannot run anywhere, which has been reported
  /// already.
  bool share_a_device(std::span<const OpId> ops) const {
    const auto runs = [&](OpId op, std::size_t column) {
      return data_.durations[op.index() * data_.columns + column] != kNever;
    };
    bool common = false;
    for (std::size_t column = 0; column < data_.columns; ++column)
      common = common || std::ranges::all_of(ops, [&](OpId op) { return runs(op, column); });
    return common || std::ranges::any_of(ops, [&](OpId op) {
             bool one = false;
             for (std::size_t column = 0; column < data_.columns; ++column) one = one || runs(op, column);
             return !one;
           });
  }

  Data& data_;
  const Graph& graph_;
  const Cluster& cluster_;
  Checkpoint checkpoint_;
  Nanoseconds longest_gap_{0};                                               // of devices, then also of channels
  Wide total_ = 0;                                                           // sum of the times of all possible tasks
  std::map<std::pair<const std::string*, const std::string*>, OpId> asked_;  // last op by type and signature
  std::vector<Finding> findings_;
};

Problem::Problem(Graph graph, Cluster cluster, Costs own_costs, std::vector<Rewrite> rewrites, Checkpoint checkpoint) {
  auto data = std::make_shared<Data>();
  data->graph = std::move(graph);
  data->cluster = std::move(cluster);
  data->costs = std::move(own_costs);
  data->rewrites = std::move(rewrites);
  Compilation{*data, std::move(checkpoint)};
  data_ = std::move(data);
}

}  // namespace trainyard
