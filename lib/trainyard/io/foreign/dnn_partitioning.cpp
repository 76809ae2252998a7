#include "trainyard/io/foreign/dnn_partitioning.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_object.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr double kBytesPerMillisecond = 2147483.648;  // 2 GiB/s, with which the files' costs were computed
constexpr BytesPerSecond kAcceleratorLink{2147483648.0};
constexpr BytesPerSecond kHostLink{1e15};
constexpr double kLargestTime = 1e12;  // ms: 31 years
constexpr double kSameCost = 1e-6;

class WorkloadReader {
 public:
  WorkloadReader(std::string_view text, const std::string& name) : findings_(name, text), text_(text) {
    workload_.name = name;
  }

  DnnWorkload read() {
    JsonTree tree;
    const auto root = parse_json(text_, tree, findings_);
    if (root) read_root(*root);
    findings_.raise_if_any();
    return std::move(workload_);
  }

 private:
  void read_root(const JsonValue& root) {
    ObjectReader object{root, "the workload", findings_};
    workload_.accelerators = static_cast<std::size_t>(count(object.required("maxFPGAs"), "accelerators"));
    workload_.cpus = static_cast<std::size_t>(count(object.required("maxCPUs"), "CPUs"));
    if (workload_.accelerators + workload_.cpus > limits::kRoutedDevices)
      findings_.add(root.begin_offset(), "too-large",
                    fmt::format("{} accelerators and {} CPUs are more than the limit of {} devices",
                                workload_.accelerators, workload_.cpus, limits::kRoutedDevices));
    // Sizes are whole bytes, so a fractional capacity is rounded down.
    workload_.accelerator_memory = Bytes{
        static_cast<std::int64_t>(std::floor(number(object.required("maxSizePerFPGA"), 0x1p61, "negative-bytes")))};
    if (const auto nodes = object.required("nodes", JsonKind::array))
      for (const JsonValue node : nodes->children()) read_node(node);
    if (const auto edges = object.required("edges", JsonKind::array))
      for (const JsonValue edge : edges->children()) read_edge(edge);
    if (workload_.nodes.empty() && findings_.empty())
      findings_.add(root.begin_offset(), "empty-graph", "the workload has no nodes");
  }

  void read_node(const JsonValue& value) {
    ObjectReader object{value, "a node", findings_};
    DnnWorkload::Node node{.id = count(object.required("id"), "ids"),
                           .name = object.text("name"),
                           .on_accelerator = flag(object.required("supportedOnFpga")),
                           .backward = flag(object.required("isBackwardNode")),
                           .cpu = time(object.required("cpuLatency")),
                           .accelerator = time(object.required("fpgaLatency")),
                           .size = Bytes{rounded(object.required("size"))}};
    if (const auto color = object.get("colorClass"); color && color->kind() != JsonKind::null)
      node.color = count(color, "colors");
    if (!index_.try_emplace(node.id, workload_.nodes.size()).second)
      findings_.add(value.begin_offset(), "duplicate-name", fmt::format("node {} is listed twice", node.id),
                    "keep one");
    workload_.nodes.push_back(std::move(node));
    cost_known_.push_back(false);
  }

  void read_edge(const JsonValue& value) {
    ObjectReader object{value, "an edge", findings_};
    const auto from = node(object.required("sourceId")), to = node(object.required("destId"));
    const double cost = time(object.required("cost"));
    if (!from || !to) return;
    double& known = workload_.nodes[*from].cost;
    if (cost_known_[*from] && std::abs(known - cost) > kSameCost)
      findings_.add(
          value.begin_offset(), "edge-cost",
          fmt::format("one edge from node {} costs {}, another one {}", workload_.nodes[*from].id, cost, known),
          "give all edges of a node the same cost: a node has one output");
    known = cost_known_[*from] ? known : cost;
    cost_known_[*from] = true;
    workload_.edges.emplace_back(*from, *to);
  }

  std::optional<std::size_t> node(const std::optional<JsonValue>& value) {
    std::int64_t id = 0;
    if (!value || !read_count(*value, id, "ids", "number", findings_)) return std::nullopt;
    const auto at = index_.find(id);
    if (at != index_.end()) return at->second;
    findings_.add(value->begin_offset(), "unknown-node", fmt::format("there is no node {}", id),
                  "name one by its \"id\" in \"nodes\"");
    return std::nullopt;
  }

  std::int64_t count(const std::optional<JsonValue>& value, const char* unit) {
    std::int64_t number = 0;
    return value && read_count(*value, number, unit, "number", findings_) ? number : 0;
  }

  double number(const std::optional<JsonValue>& value, double largest, const char* negative_code) {
    double found = 0;
    if (!value || !detail::read(*value, found, findings_)) return 0;
    if (found >= 0 && found <= largest) return found;
    findings_.add(value->begin_offset(), found < 0 ? negative_code : "too-large",
                  fmt::format("{} is {}", label(*value), found < 0 ? "negative" : "too large"));
    return 0;
  }
  double time(const std::optional<JsonValue>& value) { return number(value, kLargestTime, "negative-time"); }
  std::int64_t rounded(const std::optional<JsonValue>& value) {
    return static_cast<std::int64_t>(std::floor(number(value, 0x1p61, "negative-bytes") + 0.5));
  }

  /// Reads true, false, 0 or 1.
  bool flag(const std::optional<JsonValue>& value) {
    if (!value) return false;
    if (value->kind() == JsonKind::number) return number(value, 1, "number") != 0;
    bool found = false;
    return detail::read(*value, found, findings_) && found;
  }

  FindingList findings_;
  std::string_view text_;
  DnnWorkload workload_;
  std::map<std::int64_t, std::size_t> index_;
  std::vector<bool> cost_known_;
};

Nanoseconds from_milliseconds(double milliseconds) { return nanoseconds_from_seconds(milliseconds * 1e-3); }

}  // namespace

bool is_dnn_workload(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return (name.ends_with(".json") || name.ends_with(".json.gz")) &&
         begin_of_input(path).find("\"maxFPGAs\"") != std::string::npos;
}

DnnWorkload parse_dnn_workload(std::string_view text, const std::string& name) {
  return WorkloadReader{text, name}.read();
}

DnnWorkload read_dnn_workload(const std::filesystem::path& path) {
  return parse_dnn_workload(read_input(path), input_name(path));
}

Graph workload_graph(const DnnWorkload& workload) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const DnnWorkload::Node& node : workload.nodes) {
    std::string name = node.name;
    if (name.empty() || taken.contains(name)) name = fmt::format("n{}", node.id);
    while (!taken.insert(name).second) name += '\'';
    names.push_back(std::move(name));
  }
  std::vector<OpSpec> ops;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const DnnWorkload::Node& node = workload.nodes[i];
    OpSpec op{.name = names[i],
              .phase = node.backward ? Phase::backward : Phase::forward,
              .colocate = node.color ? fmt::format("color{}", *node.color) : "",
              .parameter_bytes = node.size,
              .times = {{"cpu", from_milliseconds(node.cpu)}},
              .outputs = {{names[i], Bytes{static_cast<std::int64_t>(node.cost * kBytesPerMillisecond + 0.5)}}}};
    if (node.on_accelerator)
      op.times.push_back({"gpu", from_milliseconds(node.accelerator)});
    else
      op.device_kinds = {"cpu"};
    ops.push_back(std::move(op));
  }
  for (const auto& [from, to] : workload.edges) ops[to].inputs.push_back(names[from]);
  GraphBuilder builder{workload.name};
  for (OpSpec& op : ops) builder.add(std::move(op));
  return std::move(builder).build();
}

ClusterSpec workload_cluster(const DnnWorkload& workload) {
  ClusterSpec spec{.name = workload.name, .devices = {}, .switches = {"host"}};
  const auto add = [&](std::string name, const char* device_class, std::optional<Bytes> memory, BytesPerSecond link) {
    spec.devices.push_back({.name = name, .kind = "", .device_class = device_class, .memory = memory});
    spec.links.push_back({.name = name + "-host", .from = name, .to = "host", .bandwidth = link});
  };
  for (std::size_t i = 0; i < workload.accelerators; ++i)
    add(fmt::format("gpu{}", i), "gpu", workload.accelerator_memory, kAcceleratorLink);
  for (std::size_t i = 0; i < workload.cpus; ++i) add(fmt::format("cpu{}", i), "cpu", std::nullopt, kHostLink);
  return spec;
}

}  // namespace trainyard
