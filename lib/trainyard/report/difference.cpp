#include "trainyard/report/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "trainyard/core/units.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

using Differences = std::vector<Difference>;

void add_where_unequal(Differences& rows, std::string what, std::string name, std::string before, std::string after,
                       Bytes bytes = {}) {
  if (before != after) rows.push_back({std::move(what), std::move(name), std::move(before), std::move(after), bytes});
}

const char* word(Policy policy) {
  return policy == Policy::fifo ? "fifo" : policy == Policy::priority ? "priority" : "strict";
}

/// A schedule as simulated.
struct Simulated {
  Problem problem;
  const Schedule& schedule;
  Timeline timeline;

  Simulated(const Problem& whole, const Schedule& given)
      : problem(scheduled_problem(whole, given)), schedule(given), timeline(simulate(problem, given)) {}
  std::string device_name(DeviceId id) const { return problem.cluster().device(id).name; }
  std::string device_of(OpId op) const { return device_name(schedule.placement[op]); }
};

void add_runs(Differences& rows, const Simulated& a, const Simulated& b) {
  const auto rewrites = [](const Simulated& run) { return fmt::format("{} rewrites", run.schedule.rewrites.size()); };
  if (a.schedule.rewrites != b.schedule.rewrites) rows.push_back({"rewrites", "", rewrites(a), rewrites(b), {}});
  add_where_unequal(rows, "policy", "", word(a.schedule.policy), word(b.schedule.policy));
  const Nanoseconds before = a.timeline.makespan, after = b.timeline.makespan;
  if (before != after) rows.push_back({"step time", "", format_time(before), format_time(after), {}});
  add_where_unequal(rows, "fits in memory", "", a.timeline.fits() ? "yes" : "no", b.timeline.fits() ? "yes" : "no");
  for (const DeviceId device : a.problem.devices()) {
    const Bytes held = a.timeline.devices[device].peak, holds = b.timeline.devices[device].peak;
    if (held != holds)
      rows.push_back({"peak memory", a.device_name(device), format_bytes(held), format_bytes(holds), {}});
  }
}

/// By layer: the devices of the ops that differ, and the bytes that these ops keep or make.
void add_layers(Differences& rows, const Simulated& a, const Simulated& b) {
  struct Moved {
    std::set<std::string> before, after;
    Bytes bytes;
  };
  std::map<std::string, Moved> layers;
  const Graph& graph = a.problem.graph();
  for (const OpId op : graph.ops()) {
    if (a.schedule.placement[op] == b.schedule.placement[op]) continue;
    const std::string& layer = graph.layer(op);
    Moved& moved = layers[layer.empty() ? std::string{graph.name(op)} : layer];
    moved.before.insert(a.device_of(op));
    moved.after.insert(b.device_of(op));
    moved.bytes += a.problem.resident_bytes(op);
    for (const TensorId tensor : graph.outputs(op)) moved.bytes += graph.bytes(tensor);
  }
  Differences moves;
  for (const auto& [name, moved] : layers)
    moves.push_back({"layer", name, fmt::format("{}", fmt::join(moved.before, ", ")),
                     fmt::format("{}", fmt::join(moved.after, ", ")), moved.bytes});
  std::ranges::stable_sort(moves, std::ranges::greater{}, &Difference::bytes);
  rows.insert(rows.end(), moves.begin(), moves.end());
}

void add_transfers(Differences& rows, const Simulated& a, const Simulated& b) {
  using Key = std::tuple<TensorId, DeviceId, DeviceId>;
  const auto keys = [](const Simulated& run) {
    std::set<Key> all;
    for (const Transfer& transfer : run.timeline.transfers) {
      all.emplace(transfer.tensor, transfer.from, transfer.to);
      for (const DeviceId to : transfer.also_to) all.emplace(transfer.tensor, transfer.from, to);
    }
    return all;
  };
  const auto before = keys(a), after = keys(b);
  Differences changes;
  const auto add = [&](const std::set<Key>& here, const std::set<Key>& there, bool appears) {
    for (const Key& key : here) {
      if (there.contains(key)) continue;
      const auto& [tensor, from, to] = key;
      std::string way = fmt::format("{} -> {}", a.device_name(from), a.device_name(to));
      changes.push_back({"transfer", std::string{a.problem.graph().name(tensor)}, appears ? "" : way,
                         appears ? std::move(way) : "", a.problem.graph().bytes(tensor)});
    }
  };
  add(before, after, false);
  add(after, before, true);
  std::ranges::stable_sort(changes, std::ranges::greater{}, &Difference::bytes);
  rows.insert(rows.end(), changes.begin(), changes.end());
}

/// By device: where its ops that both runs place there first differ in their order.
void add_orders(Differences& rows, const Simulated& a, const Simulated& b) {
  const auto order = [&](const Simulated& run, DeviceId device) {
    std::vector<std::tuple<Nanoseconds, Nanoseconds, OpId>> ops;
    for (const OpId op : run.problem.ops())
      if (a.schedule.placement[op] == device && b.schedule.placement[op] == device)
        ops.emplace_back(run.timeline.ops[op].start, run.timeline.ops[op].end, op);
    std::ranges::sort(ops);
    return ops;
  };
  for (const DeviceId device : a.problem.devices()) {
    const auto before = order(a, device), after = order(b, device);
    const auto [first, other] = std::ranges::mismatch(
        before, after, {}, [](const auto& entry) { return std::get<2>(entry); },
        [](const auto& entry) { return std::get<2>(entry); });
    if (first != before.end())
      rows.push_back({"order",
                      a.device_name(device),
                      std::string{a.problem.graph().name(std::get<2>(*first))},
                      std::string{a.problem.graph().name(std::get<2>(*other))},
                      {}});
  }
}

template <class Tensors>
std::string tensors(const Graph& graph, const Tensors& list) {
  std::string text;
  for (const TensorId tensor : list)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", graph.name(tensor), format_bytes(graph.bytes(tensor)));
  return text;
}

void add_op(Differences& rows, const Graph& a, OpId x, const Graph& b, OpId y) {
  const std::string name{a.name(x)};
  const auto add = [&](const char* what, std::string before, std::string after) {
    add_where_unequal(rows, fmt::format("{} of op", what), name, std::move(before), std::move(after));
  };
  const auto number = [](double value) { return fmt::format("{}", value); };
  add("type", a.type(x), b.type(y));
  add("layer", a.layer(x), b.layer(y));
  add("phase", fmt::format("{}", static_cast<int>(a.phase(x))), fmt::format("{}", static_cast<int>(b.phase(y))));
  add("FLOPs", number(a.flops(x).value), number(b.flops(y).value));
  add("bytes accessed", number(static_cast<double>(a.bytes_accessed(x).count)),
      number(static_cast<double>(b.bytes_accessed(y).count)));
  add("parameter bytes", number(static_cast<double>(a.parameter_bytes(x).count)),
      number(static_cast<double>(b.parameter_bytes(y).count)));
  add("inputs", tensors(a, a.inputs(x)), tensors(b, b.inputs(y)));
  add("outputs", tensors(a, a.outputs(x)), tensors(b, b.outputs(y)));
}

std::string text_of(const Device& device) {
  return fmt::format("{}{}{}, {}, {}", device.kind.empty() ? device.device_class : device.kind,
                     device.memory ? ", " : "", device.memory ? format_bytes(*device.memory) : "",
                     format_rate(device.peak), format_rate(device.memory_bandwidth));
}
std::string text_of(const Link& link) {
  return fmt::format("{} - {}, {}, {}, {}{}", link.from, link.to, format_rate(link.bandwidth),
                     format_time(link.latency), link.duplex == Duplex::full ? "full" : "half",
                     link.bus.empty() ? "" : ", bus " + link.bus);
}
std::string text_of(const Egress& egress) {
  return fmt::format("{}, {}", format_rate(egress.bandwidth), format_time(egress.latency));
}

/// Items by name: those that one side lacks, and those whose values differ.
template <class Item, class Name, class Text>
void add_items(Differences& rows, const char* what, const std::vector<Item>& before, const std::vector<Item>& after,
               const Name& name, const Text& text) {
  std::map<std::string, const Item*> there;
  for (const Item& item : after) there.emplace(std::invoke(name, item), &item);
  for (const Item& item : before) {
    const auto found = there.find(std::invoke(name, item));
    if (found == there.end()) {
      rows.push_back({what, std::invoke(name, item), text(item), "", {}});
    } else {
      if (!(item == *found->second))
        rows.push_back({what, std::invoke(name, item), text(item), text(*found->second), {}});
      there.erase(found);
    }
  }
  for (const Item& item : after)
    if (there.contains(std::invoke(name, item))) rows.push_back({what, std::invoke(name, item), "", text(item), {}});
}

}  // namespace

std::vector<Difference> differences(const Problem& problem, const Schedule& before, const Schedule& after) {
  const Simulated a{problem, before}, b{problem, after};
  Differences rows;
  add_runs(rows, a, b);
  if (before.rewrites != after.rewrites) return rows;
  add_layers(rows, a, b);
  add_transfers(rows, a, b);
  add_orders(rows, a, b);
  return rows;
}

std::vector<Difference> differences(const Graph& before, const Graph& after) {
  Differences rows;
  for (const OpId op : before.ops()) {
    const auto other = after.find_op(before.name(op));
    if (other)
      add_op(rows, before, op, after, *other);
    else
      rows.push_back({"op", std::string{before.name(op)}, before.type(op), "", {}});
  }
  for (const OpId op : after.ops())
    if (!before.find_op(after.name(op))) rows.push_back({"op", std::string{after.name(op)}, "", after.type(op), {}});
  return rows;
}

std::vector<Difference> differences(const ClusterSpec& before, const ClusterSpec& after) {
  Differences rows;
  const auto as_text = [](const auto& item) { return text_of(item); };
  add_items(rows, "device", before.devices, after.devices, &Device::name, as_text);
  add_items(
      rows, "switch", before.switches, after.switches, [](const std::string& name) { return name; },
      [](const std::string&) { return std::string{"yes"}; });
  add_items(rows, "link", before.links, after.links, &Link::name, as_text);
  add_items(rows, "egress", before.egresses, after.egresses, &Egress::device, as_text);
  if (before.routes != after.routes || before.measured != after.measured)
    rows.push_back({"routes",
                    "",
                    fmt::format("{} given", before.routes.size() + before.measured.size()),
                    fmt::format("{} given", after.routes.size() + after.measured.size()),
                    {}});
  if (before.fabric != after.fabric)
    rows.push_back({"fabric", "", before.fabric ? "yes" : "", after.fabric ? "yes" : "", {}});
  return rows;
}

}  // namespace trainyard
