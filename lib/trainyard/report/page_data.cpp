#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/report/page_parts.hpp"
#include "trainyard/report/run_text.hpp"
#include "trainyard/report/what_if.hpp"
#include "trainyard/simulate/account/memory_curve.hpp"
#include "trainyard/simulate/critical_path.hpp"

namespace trainyard::detail {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// A JSON string. "<" is escaped, so that no name can close the script element or open a comment in it. Bytes that are
/// not UTF-8 become U+FFFD.
std::string script_string(std::string_view text) {
  const std::string plain = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(plain.size());
  for (const char c : plain) c == '<' ? escaped += "\\u003c" : escaped += c;
  return escaped;
}

/// "[item(0),item(1),...]"
template <class Item>
std::string json_list(std::size_t count, const Item& item) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    fmt::format_to(std::back_inserter(text), "{}", item(i));
  }
  return text + ']';
}

/// A delta-coded JSON list of integers: each number is written as the difference from its predecessor.
template <class Value>
std::string delta_list(std::size_t count, const Value& value) {
  std::int64_t before = 0;
  return json_list(count, [&](std::size_t i) {
    const auto now = static_cast<std::int64_t>(value(i));
    const std::int64_t step = now - before;
    before = now;
    return step;
  });
}

/// {"op":[...],"bytes":[...]} for the ops whose bytes are positive.
template <class Bytes>
std::string sparse_bytes(std::size_t ops, const Bytes& bytes) {
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < ops; ++i)
    if (bytes(OpId{i}) > 0) some.push_back(i);
  return fmt::format(R"({{"op":{},"bytes":{}}})", delta_list(some.size(), [&](std::size_t i) { return some[i]; }),
                     json_list(some.size(), [&](std::size_t i) { return bytes(OpId{some[i]}); }));
}

/// JSON data shared by all runs of one graph. Only tensors that a run transfers are written, with new numbers.
class GraphData {
 public:
  explicit GraphData(const Graph& graph) : graph_(&graph), number_(graph.tensor_count(), kNone) {}

  const Graph& graph() const { return *graph_; }

  std::size_t number(TensorId tensor) {
    std::size_t& number = number_[tensor.index()];
    if (number == kNone) {
      number = sent_.size();
      sent_.push_back(tensor);
    }
    return number;
  }

  std::string json() const {
    std::vector<std::string_view> types, layers;
    std::map<std::string_view, std::size_t> type_numbers, layer_numbers;
    const auto numbered = [](auto& words, auto& numbers, std::string_view word) {
      const auto [at, added] = numbers.try_emplace(word, words.size());
      if (added) words.push_back(word);
      return at->second;
    };
    const std::size_t ops = graph_->op_count();
    const auto type =
        json_list(ops, [&](std::size_t i) { return numbered(types, type_numbers, graph_->type(OpId{i})); });
    const auto layer =
        json_list(ops, [&](std::size_t i) { return numbered(layers, layer_numbers, graph_->layer(OpId{i})); });
    const auto words = [](const auto& list) {
      return json_list(list.size(), [&](std::size_t i) { return script_string(list[i]); });
    };
    const auto phase = json_list(ops, [&](std::size_t i) { return static_cast<int>(graph_->phase(OpId{i})); });
    const auto output_bytes = json_list(ops, [&](std::size_t i) {
      Bytes sum;
      for (const TensorId tensor : graph_->outputs(OpId{i})) sum += graph_->bytes(tensor);
      return sum.count;
    });
    // A producer is written as its distance before the reader in ops, which is a small number.
    std::vector<std::int64_t> producers;
    const auto input_count = json_list(ops, [&](std::size_t i) {
      const std::size_t before = producers.size();
      const auto step = [&](OpId from) {
        return static_cast<std::int64_t>(i) - static_cast<std::int64_t>(from.index());
      };
      for (const TensorId tensor : graph_->inputs(OpId{i})) producers.push_back(step(graph_->producer(tensor)));
      for (const OpId earlier : graph_->after(OpId{i})) producers.push_back(step(earlier));
      return producers.size() - before;
    });
    return fmt::format(
        R"({{"ops":{},"type":{},"types":{},"layer":{},"layers":{},"phase":{},"output_bytes":{},"input_count":{},"inputs":{},)"
        R"("tensors":{},"tensor_bytes":{},"producer":{},"tensor_output":{},{}}})",
        json_list(ops, [&](std::size_t i) { return script_string(graph_->name(OpId{i})); }), type, words(types), layer,
        words(layers), phase, output_bytes, input_count,
        json_list(producers.size(), [&](std::size_t i) { return producers[i]; }),
        json_list(sent_.size(), [&](std::size_t i) { return script_string(graph_->name(sent_[i])); }),
        json_list(sent_.size(), [&](std::size_t i) { return graph_->bytes(sent_[i]).count; }),
        json_list(sent_.size(), [&](std::size_t i) { return graph_->producer(sent_[i]).index(); }),
        json_list(sent_.size(), [&](std::size_t i) { return output_number(sent_[i]); }), memory_json());
  }

 private:
  /// Index of the tensor among the outputs of its producer.
  std::size_t output_number(TensorId tensor) const {
    return tensor.index() - (*graph_->outputs(graph_->producer(tensor)).begin()).index();
  }

  /// Data from which the script computes the contents of a device's memory. Only exceptions to these defaults are
  /// written: an op has one output, of output_bytes; an input is the first output of its producer; and no op has a
  /// predecessor without a tensor.
  std::string memory_json() const {
    std::string parts, inputs, after;
    std::vector<std::pair<std::size_t, std::size_t>> kept;
    const auto add = [](std::string& to, std::size_t key, const auto& value) {
      to += fmt::format(R"({}"{}":{})", to.empty() ? "" : ",", key, value);
    };
    std::size_t flat = 0;
    for (const OpId op : graph_->ops()) {
      std::vector<std::int64_t> outputs;
      for (const TensorId tensor : graph_->outputs(op)) {
        if (graph_->kept(tensor)) kept.emplace_back(op.index(), outputs.size());
        outputs.push_back(graph_->bytes(tensor).count);
      }
      if (outputs.size() > 1)
        add(parts, op.index(), json_list(outputs.size(), [&](std::size_t k) { return outputs[k]; }));
      for (const TensorId tensor : graph_->inputs(op)) {
        if (const std::size_t number = output_number(tensor); number > 0) add(inputs, flat, number);
        ++flat;
      }
      const std::size_t ordered = graph_->after(op).size();
      if (ordered > 0) add(after, op.index(), ordered);
      flat += ordered;
    }
    const std::size_t ops = graph_->op_count();
    return fmt::format(
        R"("parameters":{},"state":{},"workspace":{},"output_parts":{{{}}},"input_output":{{{}}},"after_count":{{{}}},)"
        R"("kept":{},"kept_output":{})",
        sparse_bytes(ops, [&](OpId op) { return graph_->parameter_bytes(op).count; }),
        sparse_bytes(ops, [&](OpId op) { return graph_->state_bytes(op).count; }),
        sparse_bytes(ops, [&](OpId op) { return graph_->workspace_bytes(op).count; }), parts, inputs, after,
        delta_list(kept.size(), [&](std::size_t i) { return kept[i].first; }),
        json_list(kept.size(), [&](std::size_t i) { return kept[i].second; }));
  }

  const Graph* graph_;
  std::vector<std::size_t> number_;
  std::vector<TensorId> sent_;
};

/// The devices of a run on the page, with their numbers there. All devices are included, except if the schedule is
/// folded: then the simulated devices and the ends of transfers.
class PageDevices {
 public:
  explicit PageDevices(const Run& run) : number_(run.problem.device_count(), 1) {
    if (run.summary.fold.devices > 1) {
      for (const DeviceId device : run.problem.devices()) number_[device] = run.summary.images[device] > 0;
      for (const Transfer& transfer : run.timeline.transfers) {
        number_[transfer.from] = number_[transfer.to] = 1;
        for (const DeviceId also : transfer.also_to) number_[also] = 1;
      }
    }
    for (const DeviceId device : run.problem.devices())
      if (std::exchange(number_[device], devices_.size()) == 1) devices_.push_back(device);
  }
  std::size_t count() const { return devices_.size(); }
  DeviceId operator[](std::size_t number) const { return devices_[number]; }
  std::size_t number(DeviceId device) const { return number_[device]; }

 private:
  std::vector<DeviceId> devices_;
  IdMap<DeviceId, std::size_t> number_;
};

std::string lane_json(const Run& run, const PageDevices& devices, const Lane& lane) {
  const auto span = [&](std::size_t index) {
    if (lane.kind == Lane::Kind::device) return run.timeline.ops[OpId{index}];
    return Span{run.timeline.transfers[index].start, run.timeline.transfers[index].end};
  };
  const auto at = [](const std::vector<std::size_t>& list) { return [&list](std::size_t i) { return list[i]; }; };
  Nanoseconds end;
  const auto gap = json_list(lane.spans.size(), [&](std::size_t i) {
    const Span next = span(lane.spans[i]);
    const Nanoseconds idle = next.start - end;
    end = next.end;
    return idle.count;
  });
  constexpr const char* kKinds[] = {"device", "channel", "free"};
  return fmt::format(
      R"({{"kind":"{}","name":{},"device":{},"item":{},"gap":{},"length":{},"instants":{{"item":{},"at":{}}}}})",
      kKinds[static_cast<std::size_t>(lane.kind)], script_string(lane.name),
      lane.device.is_none() ? "null" : std::to_string(devices.number(lane.device)),
      delta_list(lane.spans.size(), at(lane.spans)), gap,
      json_list(lane.spans.size(),
                [&](std::size_t i) {
                  const Span s = span(lane.spans[i]);
                  return (s.end - s.start).count;
                }),
      delta_list(lane.instants.size(), at(lane.instants)),
      delta_list(lane.instants.size(), [&](std::size_t i) { return span(lane.instants[i]).start.count; }));
}

std::string transfers_json(const std::vector<Transfer>& transfers, const PageDevices& devices, GraphData& graph) {
  const std::size_t count = transfers.size();
  std::string also;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& more = transfers[i].also_to;
    if (more.empty()) continue;
    also += fmt::format(R"({}"{}":{})", also.empty() ? "" : ",", i,
                        json_list(more.size(), [&](std::size_t k) { return devices.number(more[k]); }));
  }
  return fmt::format(R"({{"tensor":{},"from":{},"to":{},"waited":{},"also_to":{{{}}}}})",
                     delta_list(count, [&](std::size_t i) { return graph.number(transfers[i].tensor); }),
                     json_list(count, [&](std::size_t i) { return devices.number(transfers[i].from); }),
                     json_list(count, [&](std::size_t i) { return devices.number(transfers[i].to); }),
                     json_list(count, [&](std::size_t i) { return (transfers[i].start - transfers[i].ready).count; }),
                     also);
}

std::string drawing_json(const Run& run, const PageDevices& devices, GraphData& graph) {
  const auto rows = drawn_lanes(run);
  const auto curves = memory_curves(run.problem, run.schedule.placement, run.timeline);
  const auto path = run.measured ? std::vector<PathStep>{} : critical_path(run.problem, run.schedule, run.timeline);
  const auto memory = json_list(devices.count(), [&](std::size_t i) {
    const auto& curve = curves[devices[i]];
    return fmt::format(R"({{"at":{},"held":{}}})",
                       delta_list(curve.size(), [&](std::size_t k) { return curve[k].at.count; }),
                       delta_list(curve.size(), [&](std::size_t k) { return curve[k].held.count; }));
  });
  return fmt::format(R"({{"lanes":{},"transfers":{},"memory":{},"path":{}}})",
                     json_list(rows.size(), [&](std::size_t i) { return lane_json(run, devices, rows[i]); }),
                     transfers_json(run.timeline.transfers, devices, graph), memory,
                     json_list(path.size(), [&](std::size_t i) {  // an op by its index, transfer i as -i-1
                       return path[i].op.is_none() ? -static_cast<std::int64_t>(path[i].transfer) - 1
                                                   : static_cast<std::int64_t>(path[i].op.index());
                     }));
}

std::string devices_json(const Run& run, const PageDevices& devices) {
  return json_list(devices.count(), [&](std::size_t i) {
    const Device& device = run.problem.cluster().device(devices[i]);
    const DeviceUse& use = run.timeline.devices[devices[i]];
    return fmt::format(
        R"({{"name":{},"images":{},"capacity_bytes":{},"peak_bytes":{},"peak_at_ns":{},"busy_ns":{},"exposed_ns":{}}})",
        script_string(device_label(run, devices[i])), run.summary.fold.devices > 1 ? run.summary.images[devices[i]] : 1,
        device.memory ? std::to_string(device.memory->count) : "null", use.peak.count, use.peak_at.count,
        use.busy.count, use.exposed_communication.count);
  });
}

/// Makespans of the run on machines with a faster part. The number is limited to kMost, since each takes a simulation.
std::string what_if_json(const Run& run) {
  constexpr std::size_t kMost = 12;
  if (run.measured || !is_drawn(run)) return "[]";
  std::vector<WhatIf> asked = usual_what_ifs(run.problem, run.timeline, 2);
  if (asked.size() > kMost) asked.resize(kMost);
  const auto results = simulate_what_ifs(run.problem, run.schedule, asked);
  return json_list(results.size(), [&](std::size_t i) {
    return fmt::format(R"({{"name":{},"makespan_ns":{}}})", script_string(results[i].what_if.name),
                       results[i].makespan.count);
  });
}

/// The schedule's plan: its degrees, the stages of each pipeline position, and the names of its devices.
std::string plan_json(const Run& run) {
  constexpr std::size_t kMostNames = 4096;
  if (!run.schedule.parallel) return "null";
  const ParallelPlan& plan = *run.schedule.parallel;
  const std::vector<DeviceId> devices = worthy_devices(run.problem);
  const std::size_t row = plan.devices_in_row(), named = std::min({plan.devices(), devices.size(), kMostNames});
  std::vector<std::vector<std::size_t>> stages(row);
  for (std::size_t s = 0; s < plan.stages(); ++s) stages[device_of(plan.schedule, s, row)].push_back(s);
  const auto recompute = [&](std::size_t s) -> std::string {
    const StageRecomputation again = plan.recompute.empty() ? StageRecomputation{} : plan.recompute[s];
    if (again.what == StageRecompute::no) return "null";
    const bool attention = again.what == StageRecompute::attention;
    const char* full = again.what == StageRecompute::full ? " in full" : "";
    if (again.layers == StageRecomputation::kAll) return attention ? R"("attention")" : fmt::format(R"("all{}")", full);
    return fmt::format(R"("{}the first {}{}")", attention ? "attention of " : "", again.layers, full);
  };
  return fmt::format(
      R"({{"text":{},"data":{},"context":{},"experts":{},"tensor":{},"row":{},"stages":{},"cuts":{},"recompute":{},)"
      R"("names":{}}})",
      script_string(describe(plan)), plan.data, plan.context, plan.experts, plan.tensor,
      plan.degrees.empty() ? "null"
                           : json_list(row,
                                       [&](std::size_t i) {
                                         const auto& [replicas, tensor] = plan.degrees[i];
                                         return fmt::format("[{},{}]", replicas, tensor.ranks);
                                       }),
      json_list(
          row, [&](std::size_t i) { return json_list(stages[i].size(), [&](std::size_t k) { return stages[i][k]; }); }),
      json_list(plan.cuts.size(), [&](std::size_t i) { return plan.cuts[i]; }), json_list(plan.stages(), recompute),
      json_list(named, [&](std::size_t i) { return script_string(run.problem.cluster().device(devices[i]).name); }));
}

std::string validation_json(const PageValidation* held) {
  if (!held) return "null";
  std::vector<std::string_view> sources;
  std::map<std::string_view, std::size_t> numbers;
  const auto& ops = held->ops;
  const auto source = json_list(ops.size(), [&](std::size_t i) {
    const auto [at, added] = numbers.try_emplace(ops[i].source, sources.size());
    if (added) sources.push_back(ops[i].source);
    return at->second;
  });
  const auto& devices = held->devices;
  return fmt::format(
      R"({{"verdict":{},"why":{},"text":{},"measured_ns":{},"total_error":{},"structural_error":{},"op_time_error":{},)"
      R"("link_error":{},"total_tolerance":{},"structural_tolerance":{},"noise_floor":{},)"
      R"("ops":{{"op":{},"predicted":{},"measured":{},"source":{}}},"sources":{},"links":{},"peaks":{},"gaps_ns":{}}})",
      script_string(held->verdict), script_string(held->why), script_string(held->text), held->measured.count,
      held->total_error, held->structural_error, held->op_time_error, held->link_error, held->total_tolerance,
      held->structural_tolerance, held->noise_floor,
      json_list(ops.size(), [&](std::size_t i) { return ops[i].op.index(); }),
      json_list(ops.size(), [&](std::size_t i) { return ops[i].predicted.count; }),
      json_list(ops.size(), [&](std::size_t i) { return ops[i].measured.count; }), source,
      json_list(sources.size(), [&](std::size_t i) { return script_string(sources[i]); }),
      json_list(held->links.size(),
                [&](std::size_t i) {
                  const PageValidation::Link& link = held->links[i];
                  return fmt::format("[{},{},{},{},{}]", link.from.index(), link.to.index(), link.transfers,
                                     link.predicted.count, link.measured.count);
                }),
      json_list(devices.size(),
                [&](std::size_t i) {
                  const auto& peaks = devices[DeviceId{i}];
                  return fmt::format("[{},{}]", peaks.predicted.count, peaks.measured.count);
                }),
      json_list(devices.size(), [&](std::size_t i) { return devices[DeviceId{i}].gap.count; }));
}

}  // namespace

std::string page_data(const PageInput& input) {
  std::vector<GraphData> graphs;
  const auto graph_number = [&](const Run& run) {
    for (std::size_t i = 0; i < graphs.size(); ++i)
      if (&graphs[i].graph() == &run.problem.graph()) return i;
    graphs.emplace_back(run.problem.graph());
    return graphs.size() - 1;
  };
  const auto runs = json_list(input.runs.size(), [&](std::size_t i) {
    const Run& run = *input.runs[i];
    std::string graph = "null", drawing = "null";
    const std::size_t beneath = run_beneath(input, i);
    const PageDevices devices(run);
    if (is_drawn(run)) {
      const std::size_t number = graph_number(run);
      graph = std::to_string(number);
      drawing = drawing_json(run, devices, graphs[number]);
    }
    return fmt::format(
        R"({{"label":{},"makespan_ns":{},"value":{},"value_ns":{},"lower_bound_ns":{},"footnote":{},"gap":{},"transfers":{},)"
        R"("moved_bytes":{},"busy":{},"devices":{},"beneath":{},"plan":{},"what_if":{},"validation":{},"graph":{},"drawing":{}}})",
        script_string(run_label(input, i)), run.summary.makespan.count, script_string(value_name(run.objective)),
        run.value().count, run.bound().value.count, script_string(footnote(run)), script_string(gap_text(run)),
        run.summary.transfers, run.summary.transferred.count, run.summary.busy, devices_json(run, devices),
        beneath < input.runs.size() ? std::to_string(beneath) : "null", plan_json(run),
        i == opened_run(input) ? what_if_json(run) : "[]", validation_json(validation_of(input, i)), graph, drawing);
  });
  return fmt::format(
      R"({{"title":{},"open":{},"ranking":{},"phases":["forward","backward","update"],"runs":{},"graphs":{}}})",
      script_string(page_title(input)), opened_run(input), script_string(input.ranking), runs,
      json_list(graphs.size(), [&](std::size_t i) { return graphs[i].json(); }));
}

}  // namespace trainyard::detail
