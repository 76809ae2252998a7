#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "inputs.hpp"
#include "option_set.hpp"
#include "print/result_json.hpp"
#include "print/results.hpp"
#include "print/traces.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/cost/nccl_model.hpp"
#include "trainyard/io/foreign/gpu_topology.hpp"
#include "trainyard/io/foreign/nccl_tests.hpp"
#include "trainyard/io/foreign/nvbandwidth.hpp"
#include "trainyard/io/foreign/p2p_bandwidth.hpp"
#include "trainyard/io/formats/calibration_file.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/pytorch/pytorch_graph.hpp"
#include "trainyard/report/table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string import_text(const GraphFacts& facts, const TextFormat& format) {
  TextTable table{{{""}, {""}}};
  table.fit(format);
  table.add_row({"ops", with_separators(facts.ops)});
  table.add_row({"tensors", with_separators(facts.tensors)});
  if (facts.parameters) table.add_row({"parameters", with_separators(*facts.parameters)});
  table.add_row({"parameter memory", format_bytes(Bytes{facts.parameter_bytes})});
  table.add_row({"optimizer state", format_bytes(Bytes{facts.state_bytes})});
  const auto flops = [](double products, double all) {
    return with_scale(products, "FLOP") +
           (products == all ? "" : fmt::format(" in products, {}FLOP in all", with_scale(all)));
  };
  table.add_row({"forward", flops(facts.forward_flops, facts.forward_total_flops)});
  table.add_row({"backward", flops(facts.backward_flops, facts.backward_total_flops)});
  table.add_row({"update", with_scale(facts.update_flops, "FLOP")});
  if (facts.saved_bytes) table.add_row({"saved for backward", format_bytes(Bytes{*facts.saved_bytes})});
  return printable(facts.name) + "\n\n" + table.text();
}

const char* words_of(BandwidthReport::Peers peers) {
  switch (peers) {
    case BandwidthReport::Peers::none:
      return "through the host";
    case BandwidthReport::Peers::pcie:
      return "peer to peer over PCIe";
    case BandwidthReport::Peers::links:
      return "NVLinks of their own";
    case BandwidthReport::Peers::ports:
      return "a port each to a switch";
  }
  return "";
}

std::string names_of(const std::vector<std::vector<std::size_t>>& buses) {
  std::string text;
  for (const auto& bus : buses) text += fmt::format("{}{{{}}}", text.empty() ? "" : " ", fmt::join(bus, ", "));
  return text.empty() ? "none" : text;
}

std::string machine_text(const BandwidthReport& report, const TextFormat& format) {
  const auto range = [](const std::vector<BytesPerSecond>& rates) {
    const auto [least, most] = std::ranges::minmax(rates, {}, &BytesPerSecond::value);
    return least == most ? format_rate(least) : format_rate(least) + " to " + format_rate(most);
  };
  const ClusterSpec& cluster = report.cluster;
  TextTable table{{{""}, {""}}};
  table.fit(format);
  const std::string& kind = cluster.devices.front().kind;
  table.add_row({"GPUs", fmt::format("{}{}", cluster.devices.size(), kind.empty() ? "" : " " + kind)});
  const auto within = [](double error) { return fmt::format("within {:.1f} %", 100 * error); };
  const auto both = [&](const char* title, const std::optional<double>& ratio) {
    if (ratio) table.add_row({title, fmt::format("{:.0f} % of the sum of both ways alone", 100 * *ratio)});
  };
  if (!report.to_host.empty()) {
    table.add_row({"to the host", range(report.to_host)});
    table.add_row({"from the host", range(report.from_host)});
    both("both ways at once", report.host_both);
  }
  if (cluster.devices.size() > 1) {
    if (!report.to_host.empty()) {
      table.add_row({"share a host bus", names_of(report.buses)});
      table.add_row({"all at once", within(report.concurrent_error)});
    }
    std::vector<BytesPerSecond> pairs;
    for (const MeasuredRoute& route : cluster.measured) pairs.push_back(route.bandwidth);
    table.add_row({"to each other", words_of(report.peers)});
    table.add_row({"pairs", range(pairs) + ", " + within(report.pair_error)});
    both("both ways at once", report.peers_both);
    if (report.one_to_all_error) table.add_row({"one to all", within(*report.one_to_all_error)});
  }
  return printable(cluster.name) + "\n\n" + table.text();
}

std::string machine_json(const BandwidthReport& report, const std::vector<std::string>& warnings) {
  const auto rates = [](const std::vector<BytesPerSecond>& each) {
    Json list = Json::array();
    for (const BytesPerSecond rate : each) list.push_back(rate.value);
    return list;
  };
  Json object = begin_result("import");
  object.update({{"cluster", report.cluster.name},
                 {"gpus", report.cluster.devices.size()},
                 {"kind", report.cluster.devices.front().kind},
                 {"peers", words_of(report.peers)},
                 {"to_host", rates(report.to_host)},
                 {"from_host", rates(report.from_host)},
                 {"buses", report.buses},
                 {"concurrent_error", report.concurrent_error},
                 {"pair_error", report.pair_error},
                 {"routes", Json::array()},
                 {"warnings", warnings}});
  for (const auto& [key, ratio] :
       {std::pair{"one_to_all_error", report.one_to_all_error}, std::pair{"host_both_ways", report.host_both},
        std::pair{"peers_both_ways", report.peers_both}})
    if (ratio) object[key] = *ratio;
  for (const MeasuredRoute& route : report.cluster.measured)
    object["routes"].push_back({{"from", route.from},
                                {"to", route.to},
                                {"bandwidth", route.bandwidth.value},
                                {"latency_ns", route.latency.count}});
  return result_text(object);
}

std::string collective_text(const CollectiveTable& table, const TextFormat& format) {
  TextTable text{{{""}, {""}}};
  text.fit(format);
  const CollectivePoint &first = table.points.front(), &last = table.points.back();
  text.add_row({"collective", name_of(table.kind)});
  text.add_row({"ranks", fmt::format("{} on {}", table.ranks, counted(table.nodes, "node"))});
  text.add_row(
      {"sizes", fmt::format("{}, {} to {}", table.points.size(), format_bytes(first.bytes), format_bytes(last.bytes))});
  text.add_row({"times", format_time(first.time) + " to " + format_time(last.time)});
  const double bus = bus_factor(table.kind, table.ranks) * static_cast<double>(last.bytes.count) / seconds(last.time);
  text.add_row({"bus bandwidth", format_rate(BytesPerSecond{bus}) + " at the last size"});
  return printable(table.source) + "\n\n" + text.text();
}

std::string collective_json(const CollectiveTable& table, const std::vector<std::string>& warnings) {
  Json object = begin_result("import");
  object.update(
      {{"collective", name_of(table.kind)}, {"ranks", table.ranks}, {"nodes", table.nodes}, {"points", Json::array()}});
  for (const CollectivePoint& point : table.points)
    object["points"].push_back({{"bytes", point.bytes.count}, {"time_ns", point.time.count}});
  return result_text(std::move(object), warnings);
}

struct ImportVerb {
  std::vector<std::string> models;
  ModelOptions training;
  std::string kind, times, topology, collective, calibration;
  Output output;

  void declare(OptionSet& set) {
    set.operands(models, "FILE",
                 "an ONNX file, a graph file, a PyTorch trace, or a built-in network; or the output of nvbandwidth -j "
                 "or p2pBandwidthLatencyTest for a machine, or a log of nccl-tests",
                 "trainyard import resnet50 -o resnet50.json");
    training.declare(set);
    set.text("--kind", kind, "KIND",
             "the kind of a machine's GPUs, if the file does not name a known one; for a trace: the only kind that its "
             "times apply to");
    set.input("--times", times, "for an execution trace of PyTorch: the Kineto trace of the same run");
    set.input("--topology", topology, "for a machine: lstopo's XML, or the output of nvidia-smi topo -m");
    set.text(
        "--collective", collective, "NAME",
        "the collective of a log that does not name it: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast");
    set.input("--calibration", calibration, "the calibration that the times of a log are added to");
    set.output("-o,--output", output,
               "the graph, the cluster (TOML), or for a log the calibration; .gz compresses, - is standard output");
  }

  int run(Console& console) const {
    const std::string begin = begin_of_input(models.front(), kMostHead);
    if (is_nccl_tests(begin)) return import_collective(console);
    if (!collective.empty() || !calibration.empty())
      throw UsageError("--collective and --calibration are for logs of nccl-tests", "leave them out for other files");
    if (is_nvbandwidth(begin) || is_p2p_bandwidth(begin)) return import_machine(console, is_nvbandwidth(begin));
    if (is_topo_matrix(begin) || is_lstopo(begin)) refuse_topology();
    if (!topology.empty())
      throw UsageError("--topology is only for bandwidths of a machine", "leave it out for networks and graphs");
    if (is_pytorch_trace(begin_of_input(models.front()))) return import_pytorch(console);
    if (!times.empty())
      throw UsageError(fmt::format("--times: '{}' is not an execution trace of PyTorch", models.front()),
                       "give the trace first: trainyard import et.json --times kineto.json");
    if (!kind.empty())
      throw UsageError("--kind is only for machines and traces", "leave it out for networks and graphs");
    check_extension(output, "json");
    const LoadedModel model = load_model(models.front(), training);
    for (const std::string& note : model.notes) console.warn(note);
    if (training.precision == Precision::tf32)
      console.warn("--precision tf32 is not stored in the graph: give it again with the graph file");
    const GraphFacts facts = facts_of(model);
    write_outputs({{output, [&](std::ostream& out) { write_graph(model.graph, out); }}},
                  console.json() ? import_json(facts, console.warnings()) : import_text(facts, console.format()),
                  console);
    return kDone;
  }

 private:
  int import_pytorch(Console& console) const {
    check_extension(output, "json");
    const TracedGraph traced = read_traced_graph(models.front(), times, kind);
    for (const std::string& note : traced.notes) console.warn(note);
    write_outputs({{output, [&](std::ostream& out) { write_graph(traced.graph, out); }}},
                  console.json() ? trace_json(traced, console.warnings()) : trace_text(traced, console.format()),
                  console);
    return kDone;
  }

  /// Bytes searched for the format's mark: logs may begin with the output of other programs.
  static constexpr std::size_t kMostHead = 1 << 18;

  int import_collective(Console& console) const {
    if (!kind.empty() || !topology.empty())
      throw UsageError("--kind and --topology are only for machines and traces",
                       "leave them out for logs of nccl-tests");
    check_extension(output, "json");
    std::optional<CollectiveKind> given;
    if (!collective.empty()) given = find_collective_kind(collective);
    if (!collective.empty() && !given)
      throw UsageError(fmt::format("no collective is called '{}'", collective),
                       "all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or shift");
    const std::filesystem::path path = models.front();
    CollectiveTable table = parse_nccl_tests(read_input(path), input_name(path), given).table;
    Calibration into = calibration.empty() ? Calibration{} : read_calibration(calibration);
    if (into.name.empty()) into.name = path.stem().string();
    std::erase_if(into.collectives, [&](const CollectiveTable& old) {
      return old.kind == table.kind && old.ranks == table.ranks && old.nodes == table.nodes;
    });
    into.collectives.push_back(table);
    write_outputs(
        {{output, [&](std::ostream& out) { write_calibration(into, out); }}},
        console.json() ? collective_json(table, console.warnings()) : collective_text(table, console.format()),
        console);
    return kDone;
  }

  [[noreturn]] void refuse_topology() const {
    throw InputError({.code = "topology",
                      .message = "a topology has no bandwidths: it does not describe a cluster by itself",
                      .help = fmt::format("measure the bandwidths too: nvbandwidth -j > box.json, then trainyard "
                                          "import box.json --topology {} -o box.toml",
                                          models.front()),
                      .pointer = "",
                      .at = {.file = input_name(models.front())}});
  }

  int import_machine(Console& console, bool by_nvbandwidth) const {
    check_extension(output, "toml");
    const std::filesystem::path path = models.front();
    std::optional<GpuTopology> places;
    if (!topology.empty()) places = parse_gpu_topology(read_input(topology), input_name(topology));
    const auto parse = by_nvbandwidth ? parse_nvbandwidth : parse_p2p_bandwidth;
    BandwidthReport report = parse(read_input(path), input_name(path), kind, places ? &*places : nullptr);
    report.cluster.name = (path.extension() == ".gz" ? path.stem() : path).stem().string();
    for (const std::string& note : report.notes) console.warn(note);
    write_outputs({{output, [&](std::ostream& out) { write_cluster(report.cluster, out); }}},
                  console.json() ? machine_json(report, console.warnings()) : machine_text(report, console.format()),
                  console);
    return kDone;
  }
};

}  // namespace

const Verb kImport{"import", "reads a network or a graph, and writes it as a training graph",
                   "trainyard import resnet50 --batch 32 --training adam -o resnet50.json", declare<ImportVerb>};

}  // namespace trainyard::program
