#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/pipeline_schedule.hpp"

namespace trainyard {

/// Order of the parts of a backward task. `together`: one after the other, as in run_plan(). `apart`, as ops allow:
/// recomputation does not wait for the incoming gradient, and the input gradient is sent before weight gradients start.
enum class TaskParts : std::uint8_t { together, apart };

/// Rules for the waits between tasks. The defaults are those of run_plan(); others relax these, for bounds on
/// simulated ops.
struct TaskRules {
  TaskParts inside = TaskParts::together;
  /// By layer: whether a stage that begins with it sums its gradients separately.
  std::vector<bool> own_sums = {};
  bool last_addition_behind = false;  // the last microbatch's gradients are accumulated after all tasks
};

/// Parts of a stage's time: its passes, and its sends to the next stage (`onward`) and to the previous one (`back`).
enum class TaskPart : std::uint8_t { forward, again, input_gradient, weight_gradient, accumulation, onward, back };

/// A number for each part: nanoseconds, or occurrences on a path.
class PartSums {
 public:
  static constexpr std::size_t kParts = 7;

  PartSums() = default;
  explicit PartSums(const std::array<double, kParts>& sums) : sums_(sums) {}

  double& operator[](TaskPart part) { return sums_[static_cast<std::size_t>(part)]; }
  double operator[](TaskPart part) const { return sums_[static_cast<std::size_t>(part)]; }
  void add(const PartSums& other, double times) {
    for (std::size_t part = 0; part < kParts; ++part) sums_[part] += times * other.sums_[part];
  }
  /// Total time, if one operand has times and the other counts.
  double product(const PartSums& other) const {
    double sum = 0;
    for (std::size_t part = 0; part < kParts; ++part) sum += sums_[part] * other.sums_[part];
    return sum;
  }

 private:
  std::array<double, kParts> sums_{};
};

/// Dependency graph of the tasks and transfers of a pipeline's schedule. Nodes are in topological order.
class ScheduleGraph {
 public:
  /// The end of a path: an instant on a device, and the work that follows it.
  struct End {
    std::size_t device;
    std::int32_t node;
    std::size_t tasks;                         // tasks of the device before the end
    std::vector<std::size_t> stages;           // stages whose sums or updates follow
    std::optional<std::size_t> last_sum = {};  // stage whose last gradient's sum follows
  };

  /// Keeps a reference to the plan. With `sums`, a stage's gradients are summed over replicas as soon as it has made
  /// the last one.
  ScheduleGraph(const ParallelPlan& plan, std::size_t microbatches, const TaskRules& rules, bool sums);

  std::size_t size() const { return nodes_.size(); }
  std::size_t device(std::size_t stage) const { return device_of(plan_.schedule, stage, devices_); }
  std::size_t stage(std::size_t device, std::size_t chunk) const {
    return stage_of(plan_.schedule, device, chunk, devices_);
  }
  const std::vector<PipelineTask>& tasks(std::size_t device) const { return tasks_[device]; }
  /// Adds 1 to `counts` for each part of a task.
  void count(const PipelineTask& task, PartSums& counts) const;
  /// Contents of a device's memory at an instant, by chunk.
  struct Held {
    std::vector<std::size_t> microbatches;  // in flight: from the start of F to the start of B
    std::vector<std::size_t> gradients;     // 1 once weight gradients have been made, else 0
  };
  /// The instants of a device that no other instant dominates in every component.
  const std::vector<Held>& instants(std::size_t device) const { return instants_[device]; }

  /// Without `sums`, the end of each device's last task. With them, the start and the end of each task that makes the
  /// last gradients of a stage.
  const std::vector<End>& ends() const { return ends_; }
  /// The time of each of ends(), given the times of each stage's parts.
  std::vector<double> ends(const std::vector<PartSums>& times);
  /// For the times last given to ends(): occurrences of each stage's parts on the longest path to an end.
  std::vector<PartSums> longest_path(const End& end) const;

 private:
  static constexpr std::int32_t kNone = -1, kNotYet = -2;
  struct Node {
    std::uint32_t stage;
    unsigned parts;                     // bit set of TaskPart
    std::array<std::int32_t, 2> after;  // nodes that it waits for
  };

  static constexpr unsigned bit(TaskPart part) { return 1u << static_cast<unsigned>(part); }
  template <class Visit>
  static void each_part(unsigned parts, const Visit& visit) {
    for (; parts != 0; parts &= parts - 1) visit(static_cast<TaskPart>(std::countr_zero(parts)));
  }
  unsigned parts(const PipelineTask& task) const;
  std::int32_t add(std::size_t stage, unsigned parts, std::int32_t one, std::int32_t other);
  double end_of(std::int32_t node) const { return node < 0 ? 0 : end_[static_cast<std::size_t>(node)]; }
  std::vector<std::size_t> unfinished(std::size_t device, std::size_t task) const;
  void note_instants(std::size_t device);

  const ParallelPlan& plan_;
  std::size_t devices_;    // in a row
  std::size_t additions_;  // microbatches after the first that accumulate within tasks
  std::vector<Node> nodes_;
  std::vector<double> end_;  // by node
  std::vector<End> ends_;
  std::vector<std::vector<std::size_t>> final_;  // by device and chunk: the task that makes its last gradients
  std::vector<std::vector<Held>> instants_;
  std::vector<std::vector<PipelineTask>> tasks_;
};

}  // namespace trainyard
