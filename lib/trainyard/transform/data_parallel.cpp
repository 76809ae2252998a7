#include "trainyard/transform/data_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/graph/builder.hpp"
#include "trainyard/transform/op_spec.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kScalar = 8;  // bytes

/// Share `part` of `parts`; all shares make up the whole.
std::int64_t share_of(std::int64_t whole, std::size_t part, std::size_t parts) {
  __extension__ using Wide = __int128;
  const auto until = [&](std::size_t end) {
    return static_cast<std::int64_t>(static_cast<Wide>(whole) * static_cast<Wide>(end) / static_cast<Wide>(parts));
  };
  return until(part + 1) - until(part);
}

bool ends_with(const std::string& text, std::string_view end) { return std::string_view{text}.ends_with(end); }

class Replication {
 public:
  Replication(const Graph& graph, const DataParallelOptions& options)
      : graph_(graph),
        options_(options),
        reads_(graph.op_count()),
        parameter_gradient_(graph.tensor_count(), false),
        parameter_sum_(graph.op_count(), false) {
    for (const TensorId tensor : graph.tensors()) parameter_gradient_[tensor] = is_parameter_gradient(graph, tensor);
    for (const OpId op : graph.ops()) {
      const auto outputs = graph.outputs(op);
      parameter_sum_[op] = graph.type(op) == "AddGrad" && std::all_of(outputs.begin(), outputs.end(), [&](TensorId t) {
                             return parameter_gradient_[t];
                           });
    }
    find_readers();
  }

  DataParallelGraph run() {
    for (const OpId op : graph_.ops()) {
      if (graph_.phase(op) == Phase::update) {
        add_update(op);
        continue;
      }
      if (holds(op)) add_variable(op);
      for (std::size_t r = 0; r < options_.replicas; ++r) add_copy(op, r);
    }
    result_.replicas = options_.replicas;
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  bool holds(OpId op) const {
    return graph_.phase(op) != Phase::update &&
           (graph_.parameter_bytes(op).count > 0 || graph_.state_bytes(op).count > 0);
  }
  static std::string weights_of(const std::string& name) { return name + "/weights"; }
  static std::string copy_of(std::string_view name, std::size_t replica) {
    return fmt::format("{}@{}", name, replica + 1);
  }

  void find_readers() {
    std::map<std::string_view, std::vector<OpId>> holders;
    for (const OpId op : graph_.ops())
      if (holds(op)) {
        reads_[op].push_back(op);
        if (!graph_.colocation_group(op).empty()) holders[graph_.colocation_group(op)].push_back(op);
      }
    for (const OpId op : graph_.ops()) {
      const std::string& type = graph_.type(op);
      const auto found = holders.find(graph_.colocation_group(op));
      if (found == holders.end() || holds(op) || graph_.phase(op) == Phase::update) continue;
      in_parameter_group_.push_back(op);
      if (parameter_sum_[op] || ends_with(type, "GradW") || ends_with(type, "GradB")) continue;
      for (const OpId holder : found->second)
        if (graph_.layer(holder) == graph_.layer(op)) reads_[op].push_back(holder);
      if (reads_[op].empty()) reads_[op] = found->second;
    }
  }

  void add(OpSpec spec, std::size_t replica) {
    builder_.add(spec);
    result_.replica.push_back(replica);
  }

  void add_variable(OpId op) {
    const std::string name = weights_of(std::string{graph_.name(op)});
    OpSpec spec{.name = name,
                .type = kVariableType,
                .layer = graph_.layer(op),
                .colocate = graph_.colocation_group(op),
                .parameter_bytes = graph_.parameter_bytes(op),
                .state_bytes = graph_.state_bytes(op),
                .times = {{"gpu", Nanoseconds{0}}, {"cpu", Nanoseconds{0}}},
                .outputs = {{name, graph_.parameter_bytes(op)}}};
    for (const GivenTime& given : graph_.given_times(op))
      if (given.on != "gpu" && given.on != "cpu") spec.times.push_back({given.on, Nanoseconds{0}});
    const auto kinds = graph_.device_kinds(op);
    spec.device_kinds.assign(kinds.begin(), kinds.end());
    add(std::move(spec), options_.replicas);
  }

  std::size_t parts() const { return options_.divide_batch ? options_.replicas : 1; }

  Bytes copied_bytes(TensorId tensor, std::size_t replica) const {
    const Bytes whole = graph_.bytes(tensor);
    if (parameter_gradient_[tensor] || whole.count <= kScalar) return whole;
    return Bytes{share_of(whole.count, parts() == 1 ? 0 : replica, parts())};
  }

  void add_copy(OpId op, std::size_t replica) {
    OpSpec spec = spec_of(graph_, op);
    const std::size_t part = parts() == 1 ? 0 : replica;
    std::int64_t whole = 0;  // bytes that are not divided
    for (auto& input : spec.inputs) input = copy_of(input, replica);
    for (const OpId holder : reads_[op]) {
      spec.inputs.push_back(weights_of(std::string{graph_.name(holder)}));
      whole += graph_.parameter_bytes(holder).count;
    }
    std::size_t number = 0;
    for (const TensorId tensor : graph_.outputs(op)) {
      if (parameter_gradient_[tensor]) whole += graph_.bytes(tensor).count;
      spec.outputs[number].name = copy_of(graph_.name(tensor), replica);
      spec.outputs[number++].bytes = copied_bytes(tensor, replica);
    }
    for (auto& earlier : spec.after) earlier = copy_of(earlier, replica);
    if (!parameter_sum_[op] && parts() > 1) {
      const std::int64_t traffic = spec.bytes_accessed.count;
      whole = std::min(whole, traffic);
      spec.bytes_accessed = Bytes{whole + share_of(traffic - whole, part, parts())};
      spec.workspace_bytes = Bytes{share_of(spec.workspace_bytes.count, part, parts())};
      spec.flops.value /= static_cast<double>(parts());
      for (GivenTime& given : spec.times) given.time = Nanoseconds{share_of(given.time.count, part, parts())};
      spec.signature.clear();  // of other shapes
    }
    spec.name = copy_of(spec.name, replica);
    spec.parameter_bytes = spec.state_bytes = Bytes{0};
    if (holds(op) || std::ranges::binary_search(in_parameter_group_, op))
      spec.colocate.clear();
    else if (!spec.colocate.empty())
      spec.colocate = copy_of(spec.colocate, replica);
    add(std::move(spec), replica);
  }

  void add_update(OpId op) {
    OpSpec spec = spec_of(graph_, op);
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) spec.inputs[i] = gathered(graph_.inputs(op)[i], spec);
    std::vector<std::string> after;
    for (const OpId earlier : graph_.after(op))
      for (std::size_t r = 0; r < options_.replicas; ++r) {
        const bool once = graph_.phase(earlier) == Phase::update;
        if (!once || r == 0)
          after.push_back(once ? std::string{graph_.name(earlier)} : copy_of(graph_.name(earlier), r));
      }
    spec.after = std::move(after);
    add(std::move(spec), options_.replicas);
  }

  /// The name of the sum of the tensor's copies, which is made when first asked for.
  std::string gathered(TensorId tensor, const OpSpec& update) {
    const std::string name{graph_.name(tensor)};
    if (graph_.phase(graph_.producer(tensor)) == Phase::update) return name;
    const std::size_t n = options_.replicas;
    if (n == 1) return copy_of(name, 0);
    const auto [at, added] = sums_.try_emplace(tensor, name + "/aggregate");
    if (!added) return at->second;
    const std::int64_t bytes = graph_.bytes(tensor).count;
    OpSpec sum{.name = at->second,
               .type = kAggregateType,
               .phase = Phase::update,
               .layer = update.layer,
               .colocate = update.colocate,
               .flops = Flops{static_cast<double>(n - 1) * static_cast<double>(bytes / 4)},
               .bytes_accessed = Bytes{static_cast<std::int64_t>(n + 1) * bytes},
               .device_kinds = update.device_kinds,
               .outputs = {{at->second, Bytes{bytes}}}};
    for (const GivenTime& given : update.times) sum.times.push_back({given.on, Nanoseconds{0}});
    for (std::size_t r = 0; r < n; ++r) sum.inputs.push_back(copy_of(name, r));
    add(std::move(sum), n);
    return at->second;
  }

  const Graph& graph_;
  const DataParallelOptions& options_;
  IdMap<OpId, std::vector<OpId>> reads_;  // whose parameters the op reads
  std::vector<OpId> in_parameter_group_;  // ascending; holders not
  IdMap<TensorId, bool> parameter_gradient_;
  IdMap<OpId, bool> parameter_sum_;
  std::map<TensorId, std::string> sums_;
  DataParallelGraph result_;
  GraphBuilder builder_{graph_.name()};
};

}  // namespace

DataParallelGraph data_parallel(const Graph& graph, const DataParallelOptions& options) {
  assert(options.replicas >= 1);
  return Replication{graph, options}.run();
}

}  // namespace trainyard
