#include "trainyard/io/pytorch/kineto_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/io/input_text.hpp"

namespace trainyard {
namespace {

constexpr double kFewestLinked = 0.95;
/// Largest fraction of positions at which two sequences of names may differ: events that start in the same microsecond
/// can be swapped.
constexpr double kMostSwapped = 0.02;
constexpr std::size_t kSwapDistance = 8;

/// Positions at which one sequence of names occurs in another, and the number of names that agree there.
struct Windows {
  std::vector<std::size_t> starts;
  std::size_t agreeing = 0;
};

std::optional<Windows> find_windows(const std::vector<std::uint32_t>& need, const std::vector<std::uint32_t>& have) {
  const std::size_t n = need.size(), m = have.size();
  if (n > m || n == 0) return std::nullopt;
  if (n == m) {
    std::size_t agreeing = 0;
    for (std::size_t i = 0; i < n; ++i) agreeing += need[i] == have[i];
    return 10 * agreeing >= 9 * n ? std::optional{Windows{{0}, agreeing}} : std::nullopt;
  }
  std::map<std::uint32_t, std::size_t> counts;
  for (const std::uint32_t word : need) ++counts[word];
  std::size_t at = 0;  // position of the rarest name
  for (std::size_t i = 0; i < n; ++i)
    if (counts[need[i]] < counts[need[at]]) at = i;
  Windows best;
  for (std::size_t i = at; i < m && i - at <= m - n; ++i) {
    if (have[i] != need[at]) continue;
    const std::size_t start = i - at;
    std::size_t wrong = 0;
    const auto most = static_cast<std::size_t>(kMostSwapped * static_cast<double>(n) + 1);
    for (std::size_t j = 0; j < n && wrong <= most; ++j) wrong += need[j] != have[start + j];
    if (wrong > most) continue;
    if (n - wrong > best.agreeing) best = {{}, n - wrong};
    if (n - wrong == best.agreeing) best.starts.push_back(start);
  }
  return best.starts.empty() ? std::nullopt : std::optional{std::move(best)};
}

class Linker {
 public:
  Linker(const TraceCalls& calls, TraceOps& ops, const KinetoTrace& kineto)
      : calls_(calls),
        trace_(calls.trace()),
        ops_(ops),
        kineto_(kineto),
        node_(kineto.events.size(), TraceOps::kNone) {}

  TraceTimes link(const std::string& name) {
    for (std::uint32_t i = 0; i < trace_.nodes.size(); ++i)
      if (!is_profilers(trace_.nodes[i])) ++times_.nodes;
    if (!link_by_record_function()) link_by_order();
    if (static_cast<double>(times_.linked) < kFewestLinked * static_cast<double>(times_.nodes)) refuse(name);
    times_.same_process = trace_.pid == 0 || std::ranges::find(kineto_.pids, trace_.pid) != kineto_.pids.end();
    charge();
    return std::move(times_);
  }

 private:
  [[noreturn]] void refuse(const std::string& name) const {
    refuse_file(
        name, "other-run",
        fmt::format("the events match {} of the {} nodes of the execution trace: the Kineto file is from another run",
                    times_.linked, times_.nodes),
        "give both files from the same profiler: profile(execution_trace_observer=ExecutionTraceObserver())");
  }
  bool is_profilers(const TraceNode& node) const { return trace_.name(node).starts_with("[pytorch|profiler"); }

  bool link_by_record_function() {
    std::unordered_map<std::int64_t, std::uint32_t> nodes;
    for (std::uint32_t i = 0; i < trace_.nodes.size(); ++i)
      if (trace_.nodes[i].rf_id != 0 && !is_profilers(trace_.nodes[i])) nodes[trace_.nodes[i].rf_id] = i;
    std::size_t with_id = 0, agreeing = 0;
    for (std::size_t e = 0; e < kineto_.events.size(); ++e) {
      const HostEvent& event = kineto_.events[e];
      if (event.rf_id < 0) continue;
      ++with_id;
      const auto at = nodes.find(event.rf_id);
      if (at == nodes.end() || trace_.name(trace_.nodes[at->second]) != kineto_.name(event)) continue;
      node_[e] = at->second;
      ++agreeing;
    }
    if (with_id == 0 || 10 * agreeing < 9 * std::min(nodes.size(), with_id)) {
      std::ranges::fill(node_, TraceOps::kNone);
      return false;
    }
    times_.by_record_function = true;
    times_.linked = agreeing;
    return true;
  }

  /// Matches threads of the execution trace, those with most nodes first, each with the unused host thread that fits
  /// best.
  void link_by_order() {
    Vocabulary words;
    std::vector<std::uint32_t> names(kineto_.words.size(), 0);
    const auto event_name = [&](const HostEvent& event) {
      if (names[event.name] == 0) names[event.name] = words.number(kineto_.name(event));
      return names[event.name];
    };
    std::map<std::int32_t, std::vector<std::uint32_t>> threads;
    for (std::uint32_t i = 0; i < trace_.nodes.size(); ++i)
      if (!is_profilers(trace_.nodes[i])) threads[trace_.nodes[i].thread].push_back(i);
    std::vector<std::vector<std::uint32_t>> order;
    for (auto& [thread, nodes] : threads) order.push_back(std::move(nodes));
    sort_by_descending(order, [](const auto& each) { return each.size(); });
    std::vector<std::pair<std::size_t, std::size_t>> host;  // events of each thread: [first, end)
    for (std::size_t e = 0; e < kineto_.events.size(); ++e) {
      const bool same = e > 0 && kineto_.events[e].thread == kineto_.events[e - 1].thread &&
                        kineto_.events[e].process == kineto_.events[e - 1].process;
      if (!same) host.emplace_back(e, e);
      host.back().second = e + 1;
    }
    std::vector<std::vector<std::uint32_t>> host_names;
    for (const auto& [first, end] : host) {
      host_names.emplace_back();
      for (std::size_t e = first; e < end; ++e) host_names.back().push_back(event_name(kineto_.events[e]));
    }
    std::vector<bool> used(host.size());
    for (const auto& nodes : order) {
      std::vector<std::uint32_t> need;
      for (const std::uint32_t i : nodes) need.push_back(words.number(trace_.name(trace_.nodes[i])));
      std::optional<Windows> best;
      std::size_t thread = 0;
      for (std::size_t h = 0; h < host.size(); ++h) {
        if (used[h]) continue;
        auto windows = find_windows(need, host_names[h]);
        if (windows && (!best || windows->agreeing > best->agreeing)) best = std::move(windows), thread = h;
      }
      if (!best) continue;
      used[thread] = true;
      times_.windows = std::max(times_.windows, best->starts.size());
      pair_up(nodes, need, host[thread].first + best->starts.back(), host_names[thread], best->starts.back());
    }
  }

  /// Pairs nodes and events by position. Those that disagree are paired by name with neighbours that also disagree.
  void pair_up(const std::vector<std::uint32_t>& nodes, const std::vector<std::uint32_t>& need, std::size_t first,
               const std::vector<std::uint32_t>& have, std::size_t begin) {
    std::vector<std::size_t> late;
    for (std::size_t j = 0; j < nodes.size(); ++j) {
      if (need[j] != have[begin + j]) {
        late.push_back(j);
        continue;
      }
      node_[first + j] = nodes[j];
      ++times_.linked;
    }
    for (const std::size_t j : late)
      for (const std::size_t q : late) {
        const std::size_t distance = q > j ? q - j : j - q;
        if (distance > kSwapDistance || node_[first + q] != TraceOps::kNone || have[begin + q] != need[j]) continue;
        node_[first + q] = nodes[j];
        ++times_.linked;
        break;
      }
  }

  void charge() {
    std::vector<std::uint32_t> callers;  // node by activity
    std::set<std::uint32_t> launching;
    for (const GpuActivity& activity : kineto_.activities) {
      std::uint32_t event = activity.caller;
      while (event != HostEvent::kNone && node_[event] == TraceOps::kNone) event = kineto_.events[event].parent;
      callers.push_back(event == HostEvent::kNone ? TraceOps::kNone : node_[event]);
      if (callers.back() != TraceOps::kNone) launching.insert(callers.back());
    }
    for (const std::uint32_t node : launching)
      if (ops_.owner[node] == TraceOps::kNone && !is_label(trace_.nodes[node])) ops_.promote(trace_, node);
    times_.of_node.resize(trace_.nodes.size());
    for (std::size_t i = 0; i < callers.size(); ++i) {
      const GpuActivity& activity = kineto_.activities[i];
      if (callers[i] == TraceOps::kNone) {
        ++times_.outside_activities;
        times_.outside += activity.duration;
      } else if (const std::uint32_t op = ops_.owner[callers[i]]; op == TraceOps::kNone) {
        ++times_.loose_activities;
        times_.loose += activity.duration;
      } else {
        OpGpuTime& time = times_.of_node[op];
        time.first = time.activities ? std::min(time.first, activity.start) : activity.start;
        time.last = time.activities ? std::max(time.last, activity.end()) : activity.end();
        time.total += activity.duration;
        ++time.activities;
        times_.charged += activity.duration;
      }
    }
  }
  bool is_label(const TraceNode& node) const {
    return (node.scope == 7 && !calls_.communicates(node)) || trace_.name(node).starts_with("[pytorch");
  }

  const TraceCalls& calls_;
  const PytorchTrace& trace_;
  TraceOps& ops_;
  const KinetoTrace& kineto_;
  std::vector<std::uint32_t> node_;  // by event
  TraceTimes times_;
};

}  // namespace

TraceTimes link_times(const TraceCalls& calls, TraceOps& ops, const KinetoTrace& kineto, const std::string& name) {
  return Linker{calls, ops, kineto}.link(name);
}

}  // namespace trainyard
