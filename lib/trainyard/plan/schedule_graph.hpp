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

/// The parts of a backward task: one after the other, as run_plan() has them; or `apart`, as ops can be: what is
/// computed again does not wait for the gradient that comes in, and that of the inputs leaves before those of weights
/// are made.
enum class TaskParts : std::uint8_t { together, apart };

/// What a schedule's tasks wait for, where it is to be more than run_plan() has.
struct TaskRules {
  TaskParts inside = TaskParts::together;
  /// By layer: a stage that begins with it adds up its gradients in a sum of its own.
  std::vector<bool> own_sums = {};
  bool last_addition_behind = false;  // the last microbatch's gradients are added to the others' behind all tasks
};

/// What tasks and transfers take of their stage: passes, and what it sends to the stages behind and before it.
enum class TaskPart : std::uint8_t { forward, again, input_gradient, weight_gradient, accumulation, onward, back };

/// A number for each part: nanoseconds, or how often a path has it.
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
  /// The time of all, where one of the two has times and the other counts.
  double product(const PartSums& other) const {
    double sum = 0;
    for (std::size_t part = 0; part < kParts; ++part) sum += sums_[part] * other.sums_[part];
    return sum;
  }

 private:
  std::array<double, kParts> sums_{};
};

/// Tasks and transfers of a pipeline's schedule, each behind those that it waits for.
class ScheduleGraph {
 public:
  /// An instant on a device, and what comes behind it: all that is yet to come behind tasks of some stages, or the sum
  /// of the last gradient of one.
  struct End {
    std::size_t device;
    std::int32_t node;
    std::size_t tasks;  // of the device, that come before
    std::vector<std::size_t> stages;
    std::optional<std::size_t> last_sum = {};
  };

  /// Keeps the plan. With `sums`, gradients are added up across replicas as soon as their stage has made its last.
  ScheduleGraph(const ParallelPlan& plan, std::size_t microbatches, const TaskRules& rules, bool sums);

  std::size_t size() const { return nodes_.size(); }
  std::size_t device(std::size_t stage) const { return device_of(plan_.schedule, stage, devices_); }
  std::size_t stage(std::size_t device, std::size_t chunk) const {
    return stage_of(plan_.schedule, device, chunk, devices_);
  }
  const std::vector<PipelineTask>& tasks(std::size_t device) const { return tasks_[device]; }
  /// Adds one for each part of a task.
  void count(const PipelineTask& task, PartSums& counts) const;
  /// What a device holds at an instant, by chunk.
  struct Held {
    std::vector<std::size_t> microbatches;  // from the start of F to the start of B
    std::vector<std::size_t> gradients;     // 1 where those of the first microbatch's weights have been made
  };
  /// What a device holds, at the instants where no other has as much of each.
  const std::vector<Held>& instants(std::size_t device) const { return instants_[device]; }

  /// The ends of all tasks of each device; or where its sums come behind tasks, the start and the end of each task that
  /// makes the last gradients of a stage.
  const std::vector<End>& ends() const { return ends_; }
  /// When each of ends() is, by the times of each stage's parts.
  std::vector<double> ends(const std::vector<PartSums>& times);
  /// After these: how often the longest path to an end has each part of each stage.
  std::vector<PartSums> longest_path(const End& end) const;

 private:
  static constexpr std::int32_t kNone = -1, kNotYet = -2;
  struct Node {
    std::uint32_t stage;
    unsigned parts;  // a bit each
    std::array<std::int32_t, 2> after;
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
  std::size_t additions_;  // of microbatches after the first, within tasks
  std::vector<Node> nodes_;
  std::vector<double> end_;  // by node
  std::vector<End> ends_;
  std::vector<std::vector<std::size_t>> final_;  // by device and chunk: the task that makes its last gradients
  std::vector<std::vector<Held>> instants_;
  std::vector<std::vector<PipelineTask>> tasks_;
};

}  // namespace trainyard
