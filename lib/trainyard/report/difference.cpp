#include "trainyard/report/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <tuple>
#include <utility>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

using Differences = std::vector<Difference>;

std::string told(Bytes size, bool exact) { return exact ? exact_text(size) : format_bytes(size); }
std::string told(Nanoseconds time, bool exact) { return exact ? exact_text(time) : format_time(time); }
template <class Unit>
std::string told(Amount<Unit> rate, bool exact) {
  return exact ? exact_text(rate) : format_rate(rate);
}

/// Adds a row if the exact texts `text(item, true)` differ. The row shows the rounded texts, or the exact texts if the
/// rounded ones are equal.
template <class Item, class Text>
void add_where_unequal(Differences& rows, std::string what, std::string name, const Item& before, const Item& after,
                       const Text& text) {
  std::string was = text(before, true), is = text(after, true);
  if (was == is) return;
  if (std::string short_was = text(before, false), short_is = text(after, false); short_was != short_is)
    was = std::move(short_was), is = std::move(short_is);
  rows.push_back({std::move(what), std::move(name), std::move(was), std::move(is), {}});
}

/// A schedule with its problem and timeline.
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
  const auto rewrites = [](const Simulated& run) { return counted(run.schedule.rewrites.size(), "rewrite"); };
  if (a.schedule.rewrites != b.schedule.rewrites) rows.push_back({"rewrites", "", rewrites(a), rewrites(b), {}});
  const auto quantity = [](const auto& value, bool exact) { return told(value, exact); };
  const auto policy = [](Policy value, bool) { return std::string{name_of(value)}; };
  add_where_unequal(rows, "policy", "", a.schedule.policy, b.schedule.policy, policy);
  add_where_unequal(rows, "step time", "", a.timeline.makespan, b.timeline.makespan, quantity);
  const auto fits = [](bool value, bool) { return std::string{value ? "yes" : "no"}; };
  add_where_unequal(rows, "fits in memory", "", a.timeline.fits(), b.timeline.fits(), fits);
  for (const DeviceId device : a.problem.devices())
    add_where_unequal(rows, "peak memory", a.device_name(device), a.timeline.devices[device].peak,
                      b.timeline.devices[device].peak, quantity);
}

/// Adds a row for each layer with moved ops: the devices of these ops, and the bytes that they keep or produce.
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
  sort_by_descending(moves, &Difference::bytes);
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
  sort_by_descending(changes, &Difference::bytes);
  rows.insert(rows.end(), changes.begin(), changes.end());
}

/// Adds a row for each device whose order of ops differs: the first two ops that differ. Only ops that both runs place
/// on the device count.
void add_orders(Differences& rows, const Simulated& a, const Simulated& b) {
  const auto orders = [&](const Simulated& run) {
    IdMap<DeviceId, std::vector<OpId>> ops(a.problem.device_count(), {});
    for (const OpId op : run.problem.ops())
      if (a.schedule.placement[op] == b.schedule.placement[op]) ops[a.schedule.placement[op]].push_back(op);
    for (std::vector<OpId>& own : ops)
      sort_by(own, [&](OpId op) { return std::pair{run.timeline.ops[op].start, run.timeline.ops[op].end}; });
    return ops;
  };
  const auto before = orders(a), after = orders(b);
  for (const DeviceId device : a.problem.devices()) {
    const auto [first, other] = std::ranges::mismatch(before[device], after[device]);
    if (first != before[device].end())
      rows.push_back({"order",
                      a.device_name(device),
                      std::string{a.problem.graph().name(*first)},
                      std::string{a.problem.graph().name(*other)},
                      {}});
  }
}

template <class List, class Text>
std::string joined(const List& list, const Text& text) {
  std::string all;
  for (const auto& each : list) all += (all.empty() ? "" : ", ") + std::string{text(each)};
  return all;
}

std::string text_of(const CollectiveTask* task, bool exact) {
  if (!task) return "";
  return fmt::format("{} of {}{}", name_of(task->kind), told(task->bytes, exact),
                     task->ranks > 1 ? fmt::format(", {} ranks every {}", task->ranks, task->stride) : "");
}

void add_op(Differences& rows, const Graph& a, OpId x, const Graph& b, OpId y) {
  struct Side {
    const Graph& graph;
    OpId op;
  };
  const auto add = [&](const char* what, const auto& value) {
    add_where_unequal(
        rows, fmt::format("{} of op", what), std::string{a.name(x)}, Side{a, x}, Side{b, y},
        [&](const Side& side, bool exact) { return fmt::format("{}", value(side.graph, side.op, exact)); });
  };
  const auto names = [](const Graph& graph, const auto& ids) {
    return joined(ids, [&](auto id) { return graph.name(id); });
  };
  const auto tensors = [](const Graph& graph, const auto& list, bool exact) {
    return joined(list, [&](TensorId id) {
      return fmt::format("{} ({}{}{})", graph.name(id), told(graph.bytes(id), exact), graph.kept(id) ? ", kept" : "",
                         graph.statistics(id) ? ", statistics" : "");
    });
  };
  const auto times = [](std::span<const GivenTime> list, bool exact) {
    return joined(list, [&](const GivenTime& time) { return fmt::format("{} {}", time.on, told(time.time, exact)); });
  };
  add("type", [](const Graph& g, OpId op, bool) { return g.type(op); });
  add("layer", [](const Graph& g, OpId op, bool) { return g.layer(op); });
  add("phase", [](const Graph& g, OpId op, bool) { return name_of(g.phase(op)); });
  add("signature", [](const Graph& g, OpId op, bool) { return g.signature(op); });
  add("colocation group", [](const Graph& g, OpId op, bool) { return g.colocation_group(op); });
  add("device kinds",
      [](const Graph& g, OpId op, bool) { return joined(g.device_kinds(op), [](const auto& kind) { return kind; }); });
  add("given times", [&](const Graph& g, OpId op, bool exact) { return times(g.given_times(op), exact); });
  add("collective", [](const Graph& g, OpId op, bool exact) { return text_of(g.collective(op), exact); });
  add("FLOPs", [](const Graph& g, OpId op, bool) { return g.flops(op).value; });
  add("bytes accessed", [](const Graph& g, OpId op, bool) { return g.bytes_accessed(op).count; });
  add("parameter bytes", [](const Graph& g, OpId op, bool) { return g.parameter_bytes(op).count; });
  add("state bytes", [](const Graph& g, OpId op, bool) { return g.state_bytes(op).count; });
  add("workspace bytes", [](const Graph& g, OpId op, bool) { return g.workspace_bytes(op).count; });
  add("inputs", [&](const Graph& g, OpId op, bool exact) { return tensors(g, g.inputs(op), exact); });
  add("outputs", [&](const Graph& g, OpId op, bool exact) { return tensors(g, g.outputs(op), exact); });
  add("ops before", [&](const Graph& g, OpId op, bool) { return names(g, g.after(op)); });
}

/// ", WHAT TIME", or an empty text if the time is 0.
std::string also(const char* what, Nanoseconds time, bool exact) {
  return time == Nanoseconds{0} ? "" : fmt::format(", {} {}", what, told(time, exact));
}
const char* text_of(Sharing sharing) {
  return sharing == Sharing::serial ? "" : sharing == Sharing::fair ? ", fair" : ", free";
}

std::string text_of(const Device& device, bool exact) {
  const std::string kind = device.kind.empty() || !exact ? "" : device.kind + " ";
  return fmt::format("{}{}{}{}, {}, {}{}{}{}", kind, device.kind.empty() || exact ? device.device_class : device.kind,
                     device.memory ? ", " : "", device.memory ? told(*device.memory, exact) : "",
                     told(device.peak, exact), told(device.memory_bandwidth, exact),
                     also("launch", device.launch_overhead, exact), also("gap", device.gap, exact),
                     device.part_of.empty() ? "" : ", part of " + device.part_of);
}
std::string text_of(const Link& link, bool exact) {
  return fmt::format("{} - {}, {}, {}, {}{}{}{}", link.from, link.to, told(link.bandwidth, exact),
                     told(link.latency, exact), link.duplex == Duplex::full ? "full" : "half",
                     link.bus.empty() ? "" : ", bus " + link.bus, also("gap", link.gap, exact), text_of(link.sharing));
}
std::string text_of(const Egress& egress, bool exact) {
  return fmt::format("{}, {}{}{}", told(egress.bandwidth, exact), told(egress.latency, exact),
                     also("gap", egress.gap, exact), egress.broadcast ? ", broadcast" : "");
}

std::string text_of(const GivenRoute& route, bool) { return fmt::format("{}", fmt::join(route.links, ", ")); }
std::string text_of(const MeasuredRoute& route, bool exact) {
  return fmt::format("{}, {}", told(route.bandwidth, exact), told(route.latency, exact));
}
std::string text_of(const std::string&, bool) { return "yes"; }  // a switch has only a name

/// The lines of a cluster file with the fabric.
std::vector<std::string> lines_of(const FabricSpec& fabric) {
  std::stringstream file;
  write_cluster({.devices = {Device{}}, .fabric = fabric}, file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Adds a row for each item, by name, that one side lacks or whose values differ.
template <class Item, class Name>
void add_items(Differences& rows, const char* what, const std::vector<Item>& before, const std::vector<Item>& after,
               const Name& name) {
  const auto text = [](const Item& item, bool exact) { return text_of(item, exact); };
  std::map<std::string, const Item*> there;
  for (const Item& item : after) there.emplace(std::invoke(name, item), &item);
  for (const Item& item : before) {
    const auto found = there.find(std::invoke(name, item));
    if (found == there.end()) {
      rows.push_back({what, std::invoke(name, item), text(item, false), "", {}});
    } else {
      add_where_unequal(rows, what, std::invoke(name, item), item, *found->second, text);
      there.erase(found);
    }
  }
  for (const Item& item : after)
    if (there.contains(std::invoke(name, item)))
      rows.push_back({what, std::invoke(name, item), "", text(item, false), {}});
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
  const OpIndex in_before{before}, in_after{after};
  for (const OpId op : before.ops()) {
    const auto other = in_after.find(before.name(op));
    if (other)
      add_op(rows, before, op, after, *other);
    else
      rows.push_back({"op", std::string{before.name(op)}, before.type(op), "", {}});
  }
  for (const OpId op : after.ops())
    if (!in_before.find(after.name(op))) rows.push_back({"op", std::string{after.name(op)}, "", after.type(op), {}});
  return rows;
}

std::vector<Difference> differences(const ClusterSpec& before, const ClusterSpec& after) {
  Differences rows;
  const auto ends = [](const auto& route) { return fmt::format("{} -> {}", route.from, route.to); };
  add_items(rows, "device", before.devices, after.devices, &Device::name);
  add_items(rows, "switch", before.switches, after.switches, std::identity{});
  add_items(rows, "link", before.links, after.links, &Link::name);
  add_items(rows, "egress", before.egresses, after.egresses, &Egress::device);
  add_items(rows, "route", before.routes, after.routes, ends);
  add_items(rows, "measured route", before.measured, after.measured, ends);
  if (before.fabric && after.fabric) {
    const std::vector<std::string> was = lines_of(*before.fabric), is = lines_of(*after.fabric);
    const auto own = [](const std::vector<std::string>& lines, const std::vector<std::string>& others) {
      std::vector<std::string> rest;
      std::ranges::copy_if(lines, std::back_inserter(rest),
                           [&](const std::string& line) { return std::ranges::find(others, line) == others.end(); });
      return fmt::format("{}", fmt::join(rest, ", "));
    };
    if (was != is) rows.push_back({"fabric", "", own(was, is), own(is, was), {}});
  } else if (before.fabric || after.fabric) {
    rows.push_back({"fabric", "", before.fabric ? "yes" : "", after.fabric ? "yes" : "", {}});
  }
  return rows;
}

}  // namespace trainyard
