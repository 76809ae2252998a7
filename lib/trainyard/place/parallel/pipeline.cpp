#include "trainyard/place/parallel/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/place/kit/partition.hpp"
#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/place/pipedream/pipedream_placer.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

using Again = PipelineOptions::Recompute;
using LayerStages = IdMap<LayerId, std::size_t>;  // numbered along the pipeline

class Pipelining {
 public:
  Pipelining(const Problem& problem, const PipelineOptions& options)
      : problem_(problem),
        graph_(problem.graph()),
        options_(options),
        layers_(find_layers(graph_)),
        chunks_(chunks_of(options.schedule, options.chunks)),
        mesh_(pipeline_devices()),
        row_(mesh_.size() / options.replicas),
        microbatches_(options.microbatches > 0 ? options.microbatches : chosen_microbatches()) {
    check_microbatches(options.schedule, row_, microbatches_);
    if (microbatches_ > samples())
      refuse(
          "microbatches",
          fmt::format("{} microbatches are more than the {} of a replica", microbatches_, counted(samples(), "sample")),
          fmt::format("use at most {}, or a larger batch", counted(samples(), "microbatch")));
  }

  Schedule run() {
    std::vector<LayerStages> cuts;
    if (options_.stages == PipelineOptions::Stages::pipedream)
      cuts.push_back(pipedream_stages());
    else
      for (const std::size_t held : held_microbatches()) {
        LayerStages cut = stages_by_time(held);
        if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(std::move(cut));
      }
    const bool fitting = options_.recompute == Again::fitting;
    for (const Again each : {Again::no, Again::blocks, Again::stages}) {
      if (!fitting && options_.recompute != each) continue;
      try {
        for (const LayerStages& cut : cuts) offer(cut, each);
      } catch (const OutOfTime&) {
        if (!best_) throw;
        break;
      }
      if (fitting && best_->outcome.excess == Bytes{0}) break;
    }
    note_idle_devices();
    note_combined_gradients();
    return std::move(best_->schedule);
  }

 private:
  /// Equally many devices for each replica, at most as many as there are layers for.
  std::vector<DeviceId> pipeline_devices() const {
    std::vector<DeviceId> devices = worthy_devices(problem_);
    const std::size_t replicas = options_.replicas;
    if (replicas == 0 || replicas > devices.size())
      refuse("replicas",
             fmt::format("{} replicas over {} are not possible", replicas, counted(devices.size(), "device")),
             fmt::format("use 1 to {} replicas", devices.size()));
    if (replicas > 1) check_batch(graph_, "replicas", "use one replica");
    devices.resize(replicas * std::min(devices.size() / replicas, std::max<std::size_t>(layers_.size() / chunks_, 1)));
    return devices;
  }
  void note_idle_devices() {
    const std::size_t worthy = worthy_devices(problem_).size();
    if (chunks_ > 1 && mesh_.size() < worthy && options_.replicas == 1)
      best_->schedule.notes.push_back(
          fmt::format("with schedule {} ({} stages per device), the {} layers of '{}' are enough for only {} of {} "
                      "devices: use schedule=1f1b, with one stage per device",
                      name_of(options_.schedule), chunks_, layers_.size(), graph_.name(), mesh_.size(), worthy));
  }
  /// Adds a note if the schedule fills gaps with weight gradients but no op of the graph makes them alone.
  void note_combined_gradients() {
    if (!splits_backward(options_.schedule) || !trains_parameters(graph_)) return;
    const IdMap<TensorId, bool> gradients = parameter_gradients(graph_);
    for (const OpId op : graph_.ops())
      if (makes_only_gradients(graph_, op, gradients)) return;
    best_->schedule.notes.push_back(
        fmt::format("schedule {} fills gaps with the gradients of weights, but no op of '{}' computes only these: use "
                    "--granularity fine, which separates them",
                    name_of(options_.schedule), graph_.name()));
  }
  std::size_t chosen_microbatches() const {
    constexpr std::size_t kManyOps = std::size_t{1} << 20;
    if (!trains_parameters(graph_)) return chunks_ > 1 ? 2 * row_ : 1;
    const std::size_t most = kManyOps / graph_.op_count() / mesh_.size();
    const std::size_t wanted = std::clamp<std::size_t>(most, chunks_ > 1 ? 2 : 1, 4) * row_;
    if (wanted <= samples()) return wanted;
    // With few samples: as many as the schedule takes, or the least that it takes, which is refused by name.
    if (options_.schedule == PipelineSchedule::interleaved) return std::max(samples() / row_, std::size_t{1}) * row_;
    return options_.schedule == PipelineSchedule::dualpipe_v ? std::max(samples(), 2 * row_) : samples();
  }

  /// Samples of one replica.
  std::size_t samples() const {
    const auto samples = options_.batch.value_or(std::numeric_limits<std::int64_t>::max());
    return std::max<std::size_t>(1, static_cast<std::size_t>(samples) / options_.replicas);
  }
  std::size_t stage_count() const { return row_ * chunks_; }

  /// Assumptions for the number of microbatches held: all, those of the first stage, one.
  std::vector<std::size_t> held_microbatches() const {
    return {microbatches_, std::min(row_ * chunks_, microbatches_), 1};
  }

  LayerStages stages_by_time(std::size_t held) const {
    const MemoryLedger memory{problem_};
    const auto parts = static_cast<std::int64_t>(microbatches_ * options_.replicas);
    std::vector<PartitionItem> items(layers_.size());
    const auto held_share = [&](Bytes bytes) { return Bytes{bytes.count / parts * static_cast<std::int64_t>(held)}; };
    for (const GroupId group : problem_.groups()) {
      const auto ops = problem_.group_ops(group);
      Bytes resident{0};
      for (const OpId op : ops) resident += problem_.resident_bytes(op);
      const MemoryLedger::Need& need = memory.need(group);
      PartitionItem& item = items[layers_.of[ops.front()].index()];
      item.held += resident + held_share(need.held - resident);
      item.transient = std::max(item.transient, Bytes{need.transient.count / parts});
    }
    // Chunks of one device share its memory.
    std::vector<PartitionBin> bins;
    for (std::size_t stage = 0; stage < stage_count(); ++stage) {
      const bool back = is_folded(options_.schedule) && stage >= row_;
      const DeviceId device = mesh_[(back ? 2 * row_ - 1 - stage : stage % row_) * options_.replicas];
      PartitionBin bin{.capacity = problem_.cluster().device(device).memory};
      if (bin.capacity) bin.capacity = Bytes{bin.capacity->count / static_cast<std::int64_t>(chunks_)};
      for (const LayerId layer : layers_.ops.ids())
        bin.times.push_back(layer_time(problem_, layers_.ops[layer], device));
      bins.push_back(std::move(bin));
    }
    return LayerStages{partition_chain(items, bins)};
  }

  LayerStages pipedream_stages() const {
    if (chunks_ > 1)
      refuse("parameter-value",
             fmt::format("PipeDream's partitioner makes one stage per device, but schedule {} needs several",
                         name_of(options_.schedule)),
             "use stages=time");
    std::vector<DeviceId> row;
    for (std::size_t i = 0; i < row_; ++i) row.push_back(mesh_[i * options_.replicas]);
    return LayerStages{trainyard::pipedream_stages(problem_, layers_, row)};
  }

  void offer(const LayerStages& stages, Again what) {
    StagePlan plan{.schedule = options_.schedule,
                   .chunks = chunks_,
                   .microbatches = microbatches_,
                   .replicas = options_.replicas,
                   .stages = stages};
    if (what != Again::no)
      plan.recompute.assign(layers_.size(), what == Again::blocks ? StageRecompute::blocks : StageRecompute::stages);
    PlannedSchedule each = schedule_of(problem_, layers_, plan, mesh_, options_.stop);
    if (!best_ || each.outcome < best_->outcome) best_ = std::move(each);
  }

  const Problem& problem_;
  const Graph& graph_;
  const PipelineOptions& options_;
  const Layers layers_;
  const std::size_t chunks_;
  const std::vector<DeviceId> mesh_;  // by device of the pipeline, then by replica
  const std::size_t row_;             // devices of one pipeline
  const std::size_t microbatches_;
  std::optional<PlannedSchedule> best_;
};

}  // namespace

Schedule place_pipeline(const Problem& problem, const PipelineOptions& options) {
  return Pipelining{problem, options}.run();
}

}  // namespace trainyard
