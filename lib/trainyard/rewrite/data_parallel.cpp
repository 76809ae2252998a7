#include "trainyard/rewrite/data_parallel.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/replicated.hpp"

namespace trainyard {
namespace {

class Replication {
 public:
  Replication(const Graph& graph, std::size_t replicas, bool divide_batch, Checkpoint checkpoint)
      : graph_(graph),
        replicas_(replicas),
        parts_(divide_batch ? replicas : 1),
        use_(graph),
        checkpoint_(std::move(checkpoint)) {}

  DataParallelGraph run() {
    for (const OpId op : graph_.ops()) {
      if (graph_.phase(op) == Phase::update) {
        add_update(op);
        continue;
      }
      if (holds_parameters(graph_, op)) add_variable(op);
      for (std::size_t r = 0; r < replicas_; ++r) add_copy(op, r);
    }
    result_.replicas = replicas_;
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  static std::string weights_of(const std::string& name) { return name + "/weights"; }
  static std::string copy_of(std::string_view name, std::size_t replica) {
    return copy_name(name, kReplicaMark, replica);
  }

  void add(OpSpec spec, std::size_t replica, OpId original) {
    checkpoint_(1);
    builder_.add(spec);
    result_.replica.push_back(replica);
    result_.original.push_back(original);
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
    add(std::move(spec), replicas_, op);
  }

  void add_copy(OpId op, std::size_t replica) {
    OpSpec spec = spec_of(graph_, op);
    take_share(spec, graph_, op, use_, parts_ == 1 ? 0 : replica, parts_);
    for (auto& input : spec.inputs) input = copy_of(input, replica);
    for (const OpId holder : use_.reads[op]) spec.inputs.push_back(weights_of(std::string{graph_.name(holder)}));
    for (OutputSpec& output : spec.outputs) output.name = copy_of(output.name, replica);
    for (auto& earlier : spec.after) earlier = copy_of(earlier, replica);
    spec.name = copy_of(spec.name, replica);
    spec.parameter_bytes = spec.state_bytes = Bytes{0};
    if (holds_parameters(graph_, op) || use_.in_group[op])
      spec.colocate.clear();
    else if (!spec.colocate.empty())
      spec.colocate = copy_of(spec.colocate, replica);
    add(std::move(spec), replica, op);
  }

  void add_update(OpId op) {
    OpSpec spec = spec_of(graph_, op);
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) spec.inputs[i] = gathered(graph_.inputs(op)[i], op, spec);
    std::vector<std::string> after;
    for (const OpId earlier : graph_.after(op))
      for (std::size_t r = 0; r < replicas_; ++r) {
        const bool once = graph_.phase(earlier) == Phase::update;
        if (!once || r == 0)
          after.push_back(once ? std::string{graph_.name(earlier)} : copy_of(graph_.name(earlier), r));
      }
    spec.after = std::move(after);
    add(std::move(spec), replicas_, op);
  }

  /// Name of the sum of the tensor's copies. The first call adds the op that makes it.
  std::string gathered(TensorId tensor, OpId op, const OpSpec& update) {
    const std::string name{graph_.name(tensor)};
    if (graph_.phase(graph_.producer(tensor)) == Phase::update) return name;
    const std::size_t n = replicas_;
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
    add(std::move(sum), n, op);
    return at->second;
  }

  const Graph& graph_;
  const std::size_t replicas_, parts_;
  const ParameterUse use_;
  Checkpoint checkpoint_;
  std::map<TensorId, std::string> sums_;
  DataParallelGraph result_;
  GraphBuilder builder_{graph_.name()};
};

}  // namespace

DataParallelGraph data_parallel(const Graph& graph, const Replicate& replicate, bool divide_batch,
                                std::size_t first_bucket, Checkpoint checkpoint) {
  if (replicate.replicas < 1) refuse("unsplittable", "a graph needs at least one replica", "give 1 or more");
  if (replicate.experts > 1 && clips(graph))
    refuse("experts", "clipping of gradients is not modelled for replicas that hold different experts",
           "do not clip, or set experts to 1");
  if (replicate.collective != Collective::parameter_server)
    return detail::replicate(graph, replicate, divide_batch, first_bucket, std::move(checkpoint));
  if (replicate.zero > 0)
    refuse("zero", "ZeRO shards what replicas hold, but with a parameter server they hold nothing", "take the ring");
  if (replicate.experts > 1)
    refuse("experts", "with a parameter server, replicas cannot hold different experts",
           "take the ring, or whole collectives");
  if (replicate.context > 1)
    refuse("context", "with a parameter server, replicas cannot share a sequence",
           "take the ring, or whole collectives");
  return Replication{graph, replicate.replicas, divide_batch, std::move(checkpoint)}.run();
}

}  // namespace trainyard
