#include "trainyard/place/parallel/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/place/kit/partition.hpp"
#include "trainyard/place/pipedream/pipedream_placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/recompute.hpp"

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
        chunks_(options.schedule == PipelineSchedule::interleaved ? std::max<std::size_t>(options.chunks, 1) : 1),
        devices_(pipeline_devices()),
        microbatches_(options.microbatches > 0 ? options.microbatches : chosen_microbatches()) {
    if (options.schedule == PipelineSchedule::interleaved && microbatches_ % devices_.size() != 0)
      throw InputError(
          {.code = "microbatches",
           .message = fmt::format("an interleaved pipeline over {} devices takes a multiple of {} microbatches, not {}",
                                  devices_.size(), devices_.size(), microbatches_),
           .help = "give such a number, or take schedule 1f1b"});
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
      if (fitting && best_->second.excess == Bytes{0}) break;
    }
    note_idle_devices();
    return std::move(best_->first);
  }

 private:
  /// No more than there are layers for.
  std::vector<DeviceId> pipeline_devices() const {
    std::vector<DeviceId> devices = worthy_devices(problem_);
    devices.resize(std::min(devices.size(), std::max<std::size_t>(layers_.size() / chunks_, 1)));
    return devices;
  }
  void note_idle_devices() {
    const std::size_t worthy = worthy_devices(problem_).size();
    if (chunks_ > 1 && devices_.size() < worthy)
      best_->first.notes.push_back(
          fmt::format("interleaved with {} stages a device, the {} layers of '{}' are enough for {} of {} devices: "
                      "schedule=1f1b takes "
                      "one stage a device",
                      chunks_, layers_.size(), graph_.name(), devices_.size(), worthy));
  }
  std::size_t chosen_microbatches() const {
    constexpr std::size_t kManyOps = std::size_t{1} << 20;
    if (!trains_parameters(graph_)) return chunks_ > 1 ? devices_.size() : 1;
    const std::size_t most = kManyOps / graph_.op_count() / devices_.size();
    return std::clamp<std::size_t>(most, 1, 4) * devices_.size();
  }

  std::size_t stage_count() const { return devices_.size() * chunks_; }

  /// How many microbatches to expect to be held: all, those of the first stage, one.
  std::vector<std::size_t> held_microbatches() const {
    return {microbatches_, std::min(devices_.size() * chunks_, microbatches_), 1};
  }

  LayerStages stages_by_time(std::size_t held) const {
    const MemoryLedger memory{problem_};
    std::vector<PartitionItem> items(layers_.size());
    const auto held_share = [&](Bytes bytes) {
      return Bytes{bytes.count / static_cast<std::int64_t>(microbatches_) * static_cast<std::int64_t>(held)};
    };
    for (const GroupId group : problem_.groups()) {
      const auto ops = problem_.group_ops(group);
      Bytes resident{0};
      for (const OpId op : ops) resident += problem_.resident_bytes(op);
      const MemoryLedger::Need& need = memory.need(group);
      PartitionItem& item = items[layers_.of[ops.front()].index()];
      item.held += resident + held_share(need.held - resident);
      item.transient = std::max(item.transient, Bytes{need.transient.count / static_cast<std::int64_t>(microbatches_)});
    }
    // Chunks of one device share its memory.
    std::vector<PartitionBin> bins;
    for (std::size_t stage = 0; stage < stage_count(); ++stage) {
      const DeviceId device = devices_[stage % devices_.size()];
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
      throw InputError({.code = "parameter-value",
                        .message = "PipeDream's partitioner makes one stage a device, and interleaving takes several",
                        .help = "take stages=time"});
    return LayerStages{trainyard::pipedream_stages(problem_, layers_, devices_)};
  }

  /// The ops that run again, by segment.
  std::vector<std::vector<OpId>> segments(const LayerStages& stages, Again what) const {
    std::map<std::pair<std::size_t, std::string>, std::size_t> number;
    std::vector<std::vector<OpId>> found;
    if (what == Again::no) return found;
    for (const OpId op : problem_.ops()) {
      if (graph_.phase(op) != Phase::forward || graph_.type(op) == "Input") continue;  // data is kept
      const LayerId layer = layers_.of[op];
      const std::string block = what == Again::blocks ? std::string{block_of(layers_.names[layer.index()])} : "";
      const auto at = number.try_emplace({stages[layer], block}, found.size()).first->second;
      if (at == found.size()) found.emplace_back();
      found[at].push_back(op);
    }
    return found;
  }

  void offer(const LayerStages& stages, Again what) {
    std::vector<Rewrite> rewrites;
    const auto again = segments(stages, what);
    for (const auto& segment : again) {
      Recompute named;
      for (const OpId op : segment) named.ops.emplace_back(graph_.name(op));
      rewrites.emplace_back(std::move(named));
    }
    if (microbatches_ > 1) rewrites.emplace_back(Microbatch{microbatches_});
    Checkpoint checkpoint{options_.stop};
    const Problem whole = apply_rewrites(problem_, rewrites);
    checkpoint();
    // The same graph again, with where each op comes from.
    const RecomputingGraph recomputing = recompute(graph_, again);
    const MicrobatchGraph batched = split_batch(recomputing.graph, microbatches_);
    checkpoint();

    PipelineWork work{.home = IdMap<OpId, DeviceId>(whole.op_count()),
                      .task = IdMap<OpId, std::size_t>(whole.op_count()),
                      .tasks = 2 * microbatches_ * chunks_};
    IdMap<DeviceId, std::map<std::tuple<bool, std::size_t, std::size_t>, std::size_t>> turn(problem_.device_count());
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto tasks = pipeline_tasks(options_.schedule, d, devices_.size(), microbatches_, chunks_);
      for (std::size_t i = 0; i < tasks.size(); ++i)
        turn[devices_[d]][{tasks[i].backward, tasks[i].chunk, tasks[i].microbatch}] = i;
    }
    for (const OpId op : whole.ops()) {
      const OpId first = recomputing.original[batched.original[op]];
      const std::size_t stage = stages[layers_.of[first]], chunk = stage / devices_.size();
      work.home[op] = devices_[stage % devices_.size()];
      const Phase phase = whole.graph().phase(op);
      work.task[op] = phase == Phase::update
                          ? work.tasks
                          : turn[work.home[op]][{phase == Phase::backward, chunk, batched.microbatch[op]}];
    }
    const auto able = group_devices(whole);
    Placement placement(whole.op_count());
    for (const GroupId group : whole.groups()) {
      const auto ops = whole.group_ops(group);
      DeviceId device = work.home[ops.front()];
      if (!std::ranges::binary_search(able[group], device)) device = fastest_device(whole, group, able[group]);
      for (const OpId op : ops) placement[op] = device;
    }
    Schedule schedule = in_task_order(whole, placement, work);
    schedule.rewrites = std::move(rewrites);
    checkpoint();
    const Outcome outcome = Evaluator{whole}.outcome(schedule);
    if (!best_ || outcome < best_->second) best_.emplace(std::move(schedule), outcome);
  }

  const Problem& problem_;
  const Graph& graph_;
  const PipelineOptions& options_;
  const Layers layers_;
  const std::size_t chunks_;
  const std::vector<DeviceId> devices_;
  const std::size_t microbatches_;
  std::optional<std::pair<Schedule, Outcome>> best_;
};

}  // namespace

Schedule place_pipeline(const Problem& problem, const PipelineOptions& options) {
  return Pipelining{problem, options}.run();
}

}  // namespace trainyard
