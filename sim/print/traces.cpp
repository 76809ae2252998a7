#include "traces.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>

#include "print/result_json.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard::program {
namespace {

std::string number_text(std::size_t count) { return with_separators(count); }

Json step_json(const TracedGraph::Step& step, bool timed) {
  Json object{
      {"name", step.name},     {"ops", step.ops},     {"forward", step.forward},      {"backward", step.backward},
      {"update", step.update}, {"edges", step.edges}, {"edge_bytes", step.edge_bytes}};
  if (timed) object["gpu_ns"] = step.gpu_ns;
  return object;
}

Json link_json(const TracedGraph::Link& link) {
  Json object{{"by", link.by_record_function ? "record function" : "name and order"},
              {"nodes", link.nodes},
              {"linked", link.linked},
              {"windows", link.windows},
              {"same_process", link.same_process},
              {"charged_ns", link.charged_ns},
              {"loose_ns", link.loose_ns},
              {"outside_ns", link.outside_ns},
              {"kernels", link.gpu.kernels},
              {"activity_ns", link.gpu.total.count},
              {"busy_ns", link.gpu.busy.count},
              {"span_ns", link.gpu.span.count},
              {"idle_ns", (link.gpu.span - link.gpu.busy).count},
              {"communication_ns", link.gpu.communication.count},
              {"exposed_communication_ns", link.gpu.exposed_communication.count},
              {"without_launch", link.gpu.unlaunched}};
  if (link.gpu.least_gap) object["least_launch_gap_ns"] = link.gpu.least_gap->count;
  if (link.gpu.median_gap) object["median_launch_gap_ns"] = link.gpu.median_gap->count;
  object["outermost_ops"] = Json::array();
  for (const OutermostOp& op : link.outermost)
    object["outermost_ops"].push_back({{"name", op.name}, {"span_ns", op.span.count}, {"sum_ns", op.sum.count}});
  return object;
}

/// Message count and bytes by kind, group and group size.
auto counted_messages(const TracedGraph& traced) {
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::pair<std::size_t, std::int64_t>> counts;
  for (const TraceMessage& message : traced.messages) {
    auto& [count, bytes] = counts[{message.kind, message.group, message.group_size}];
    ++count;
    bytes += message.bytes;
  }
  return counts;
}

}  // namespace

std::string trace_text(const TracedGraph& traced, const TextFormat& format) {
  TextTable table{{{""}, {""}}};
  table.fit(format);
  const TracedGraph::Step& step = traced.steps[traced.step];
  table.add_row({"trace", fmt::format("schema {}, {} nodes", printable(traced.schema), number_text(traced.nodes))});
  if (traced.steps.size() > 1)
    table.add_row({"step", fmt::format("{}, one of {}", printable(step.name), traced.steps.size())});
  table.add_row({"ops", fmt::format("{}: {} forward, {} backward, {} update", number_text(step.ops),
                                    number_text(step.forward), number_text(step.backward), number_text(step.update))});
  if (traced.graph.op_count() != step.ops)
    table.add_row({"", fmt::format("{} after ops on lists are split by tensor", number_text(traced.graph.op_count()))});
  table.add_row({"edges", fmt::format("{}, {}", number_text(step.edges), format_bytes(Bytes{step.edge_bytes}))});
  table.add_row({"parameter memory",
                 fmt::format("{} in {}", format_bytes(Bytes{traced.parameter_bytes}), number_text(traced.parameters))});
  table.add_row({"optimizer state",
                 fmt::format("{} in {}", format_bytes(Bytes{traced.state_bytes}), number_text(traced.states))});
  for (const auto& [key, value] : counted_messages(traced)) {
    const auto& [kind, group, size] = key;
    std::string name = printable(kind);
    if (!group.empty()) name += fmt::format(", group {}", printable(group));
    if (size > 0) name += fmt::format(" of {}", size);
    table.add_row({name, fmt::format("{} in {}", format_bytes(Bytes{value.second}), number_text(value.first))});
  }
  if (traced.link) {
    const GpuTimes& gpu = traced.link->gpu;
    table.add_row({"GPU time of the step", format_time(Nanoseconds{step.gpu_ns})});
    table.add_row({"of the Kineto file",
                   fmt::format("{} in {} kernels and copies; busy {}, idle {}", format_time(gpu.total),
                               number_text(gpu.kernels), format_time(gpu.busy), format_time(gpu.span - gpu.busy))});
    if (gpu.communication.count > 0)
      table.add_row({"communication", fmt::format("{}, exposed {}", format_time(gpu.communication),
                                                  format_time(gpu.exposed_communication))});
    if (gpu.least_gap)
      table.add_row({"launch to kernel",
                     fmt::format("at least {}, median {}", format_time(*gpu.least_gap), format_time(*gpu.median_gap))});
  }
  return printable(traced.graph.name()) + "\n\n" + table.text();
}

std::string trace_json(const TracedGraph& traced, const std::vector<std::string>& warnings) {
  const bool timed = traced.link.has_value();
  Json object = begin_result("import");
  object.update({{"graph", traced.graph.name()},
                 {"ops", traced.graph.op_count()},
                 {"tensors", traced.graph.tensor_count()},
                 {"schema", traced.schema},
                 {"nodes", traced.nodes},
                 {"parameters", traced.parameters},
                 {"parameter_bytes", traced.parameter_bytes},
                 {"states", traced.states},
                 {"state_bytes", traced.state_bytes},
                 {"trace", step_json(traced.whole, timed)},
                 {"steps", Json::array()},
                 {"step", traced.step},
                 {"messages", Json::array()}});
  for (const TracedGraph::Step& step : traced.steps) object["steps"].push_back(step_json(step, timed));
  for (const auto& [key, value] : counted_messages(traced))
    object["messages"].push_back({{"kind", std::get<0>(key)},
                                  {"group", std::get<1>(key)},
                                  {"group_size", std::get<2>(key)},
                                  {"count", value.first},
                                  {"bytes", value.second}});
  if (!traced.groups.empty()) object["groups"] = traced.groups;
  if (traced.link) object["times"] = link_json(*traced.link);
  return result_text(std::move(object), warnings);
}

}  // namespace trainyard::program
