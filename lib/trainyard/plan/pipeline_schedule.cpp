#include "trainyard/plan/pipeline_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

/// Builds the task list of one device. Each call appends the next microbatch of its pass and chunk, or nothing if none
/// is left.
class TaskList {
 public:
  explicit TaskList(std::size_t microbatches) : microbatches_(microbatches) {}

  void forward(std::size_t chunk) { put(Pass::forward, chunk, forward_[chunk]); }
  void backward(std::size_t chunk) { put(Pass::backward, chunk, backward_[chunk]); }
  void input_gradient(std::size_t chunk) {
    if (put(Pass::input_gradient, chunk, backward_[chunk])) owed_.push({chunk, backward_[chunk] - 1});
  }
  /// Appends the weight gradient that has been pending longest.
  void weight_gradient() {
    if (owed_.empty()) return;
    const auto [chunk, microbatch] = owed_.front();
    owed_.pop();
    tasks_.push_back({Pass::weight_gradient, chunk, microbatch});
  }

  std::size_t forwards(std::size_t chunk) const { return forward_[chunk]; }
  std::size_t backwards(std::size_t chunk) const { return backward_[chunk]; }
  std::size_t owed() const { return owed_.size(); }
  std::vector<PipelineTask> take() {
    while (!owed_.empty()) weight_gradient();
    return std::move(tasks_);
  }

 private:
  bool put(Pass pass, std::size_t chunk, std::size_t& count) {
    if (count == microbatches_) return false;
    tasks_.push_back({pass, chunk, count++});
    return true;
  }

  std::size_t microbatches_;
  std::array<std::size_t, 2> forward_{}, backward_{};
  std::queue<std::pair<std::size_t, std::size_t>> owed_;
  std::vector<PipelineTask> tasks_;
};

/// The tasks of one pass in order: `run` microbatches of one chunk, then as many of the next chunk, and so on.
std::vector<PipelineTask> tasks_of(Pass pass, std::size_t run, std::size_t microbatches, std::size_t chunks) {
  std::vector<PipelineTask> tasks;
  for (std::size_t first = 0; first < microbatches; first += run)
    for (std::size_t c = 0; c < chunks; ++c)
      for (std::size_t k = first; k < std::min(first + run, microbatches); ++k)
        tasks.push_back({pass, pass == Pass::forward ? c : chunks - 1 - c, k});
  return tasks;
}

/// `early` forward tasks, then forward and backward tasks in turn, then the remaining backward tasks.
std::vector<PipelineTask> in_turn(std::size_t early, std::size_t run, std::size_t m, std::size_t chunks) {
  const auto forward = tasks_of(Pass::forward, run, m, chunks), backward = tasks_of(Pass::backward, run, m, chunks);
  early = std::min(early, forward.size());
  std::vector<PipelineTask> tasks(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(early));
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (early + i < forward.size()) tasks.push_back(forward[early + i]);
    tasks.push_back(backward[i]);
  }
  return tasks;
}

/// ZB-H1: 1F1B with input gradients as backward tasks. A weight gradient runs if more than i are pending, and after
/// each backward task once no forward tasks are left.
std::vector<PipelineTask> zb_h1(std::size_t i, std::size_t p, std::size_t m) {
  TaskList list{m};
  while (list.forwards(0) < std::min(p - 1 - i, m)) list.forward(0);
  while (list.backwards(0) < m) {
    const bool cooling = list.forwards(0) == m;
    list.forward(0);
    list.input_gradient(0);
    if (cooling || list.owed() > i) list.weight_gradient();
  }
  return list.take();
}

/// ZB-H2: starts with 2 (p - i) - 1 forward tasks, so that no device waits for the first gradient to return.
std::vector<PipelineTask> zb_h2(std::size_t i, std::size_t p, std::size_t m) {
  TaskList list{m};
  while (list.forwards(0) < std::min(2 * (p - i) - 1, m)) list.forward(0);
  while (list.backwards(0) < m) {
    list.input_gradient(0);
    const bool cooling = list.forwards(0) == m;
    if (cooling ? list.backwards(0) < m : list.owed() > 2 * i) list.weight_gradient();
    list.forward(0);
  }
  return list.take();
}

std::vector<PipelineTask> zb_v(std::size_t i, std::size_t p, std::size_t m) {
  // Laid out for at least 2 p - 1 microbatches; tasks of microbatches beyond m are skipped.
  const std::size_t counted = std::max(2 * p - 1, m);
  std::array<std::size_t, 2> forward{}, backward{}, weights{};
  std::vector<PipelineTask> tasks;
  const auto put = [&](Pass pass, std::size_t chunk, std::size_t& count) {
    if (count < m) tasks.push_back({pass, chunk, count});
    ++count;
  };
  const auto f = [&](std::size_t chunk) { put(Pass::forward, chunk, forward[chunk]); };
  const auto b = [&](std::size_t chunk) { put(Pass::input_gradient, chunk, backward[chunk]); };
  const auto w = [&](std::size_t chunk) { put(Pass::weight_gradient, chunk, weights[chunk]); };
  for (std::size_t k = 0; k < 2 * (p - i) - 1; ++k) f(0);
  for (std::size_t k = 0; k < i; ++k) f(1), f(0);
  for (std::size_t k = 0; k < p - i; ++k) f(1), b(1), w(1);
  while (forward[1] < forward[0] || forward[0] < counted) {
    if (forward[0] < counted) f(0);
    b(0), w(0), f(1), b(1), w(1);
  }
  for (std::size_t k = 0; k < i; ++k) b(0), b(1);
  for (std::size_t k = 0; k < p - i; ++k) b(0), w(0);
  while (weights[1] < backward[1]) w(1);
  while (weights[0] < backward[0]) w(0);
  return tasks;
}

/// V-Half (`half`) or V-Min: a building block repeated every 6 slots of equal tasks. `starts` are the slots of its
/// forward and backward tasks, for both chunks on device i. Weight gradients fill the free slots, oldest first.
std::vector<PipelineTask> by_blocks(bool half, std::size_t i, std::size_t p, std::size_t m) {
  std::array<std::size_t, 4> starts{};  // forward of chunks 0 and 1, backward of chunks 1 and 0
  if (half) {
    const std::size_t gap = p % 2 == 0 ? 3 : 0;
    starts = {2 * i, 3 * p - i - 2, 3 * p + gap + 2 * i - 1, 6 * p + gap - i - 2};
  } else {
    const std::size_t gap = p % 3 == 0 ? 2 : 0;
    starts = {i, 2 * p - i - 1, 2 * p + gap + i, 4 * p + gap - i - 1};
  }
  std::map<std::size_t, std::size_t> slots;  // slot -> index into `starts`
  for (std::size_t q = 0; q < 4; ++q)
    for (std::size_t k = 0; k < m; ++k) slots[starts[q] + 6 * k] = q;
  TaskList list{m};
  for (std::size_t slot = 0; slot <= slots.rbegin()->first; ++slot) {
    const auto at = slots.find(slot);
    if (at == slots.end())
      list.weight_gradient();
    else if (at->second < 2)
      list.forward(at->second);
    else
      list.input_gradient(3 - at->second);
  }
  return list.take();
}

std::vector<PipelineTask> dualpipe_v(std::size_t i, std::size_t p, std::size_t m) {
  TaskList list{m};
  const std::size_t rest = p - i - 1;
  for (std::size_t k = 0; k < 2 * rest; ++k) list.forward(0);
  for (std::size_t k = 0; k < i + 1; ++k) list.forward(0), list.forward(1);
  for (std::size_t k = 0; k < rest; ++k) list.input_gradient(1), list.weight_gradient(), list.forward(1);
  for (std::size_t k = 0; k < m - 2 * p + i + 1; ++k)
    list.forward(0), list.backward(1), list.forward(1), list.backward(0);
  for (std::size_t k = 0; k < rest; ++k) list.backward(1), list.forward(1), list.backward(0);
  // From the middle round on, weight gradients are deferred; on even devices, from its second task on.
  for (std::size_t k = 0; k < i + 1; ++k) {
    const std::size_t middle = (i + 1) / 2;
    k > middle || (k == middle && i % 2 == 1) ? list.input_gradient(1) : list.backward(1);
    k >= middle ? list.input_gradient(0) : list.backward(0);
  }
  for (std::size_t k = 0; k < rest; ++k) list.weight_gradient(), list.input_gradient(0);
  return list.take();
}

}  // namespace

const char* name_of(PipelineSchedule schedule) {
  constexpr std::array kNames{"gpipe", "1f1b",   "interleaved", "zb-h1",     "zb-h2",
                              "zb-v",  "v-half", "v-min",       "dualpipe-v"};
  return kNames[static_cast<std::size_t>(schedule)];
}

bool is_folded(PipelineSchedule schedule) { return schedule >= PipelineSchedule::zb_v; }

std::size_t chunks_of(PipelineSchedule schedule, std::size_t asked) {
  if (schedule == PipelineSchedule::interleaved) return std::max<std::size_t>(asked, 2);
  return is_folded(schedule) ? 2 : 1;
}

std::size_t device_of(PipelineSchedule schedule, std::size_t stage, std::size_t devices) {
  return is_folded(schedule) && stage >= devices ? 2 * devices - 1 - stage : stage % devices;
}

std::size_t stage_of(PipelineSchedule schedule, std::size_t device, std::size_t chunk, std::size_t devices) {
  return is_folded(schedule) && chunk == 1 ? 2 * devices - 1 - device : chunk * devices + device;
}

bool splits_backward(PipelineSchedule schedule) { return schedule >= PipelineSchedule::zb_h1; }

void check_microbatches(PipelineSchedule schedule, std::size_t devices, std::size_t microbatches) {
  const bool interleaved = schedule == PipelineSchedule::interleaved && microbatches % devices != 0;
  const bool dual = schedule == PipelineSchedule::dualpipe_v && microbatches < 2 * devices;
  if (!interleaved && !dual) return;
  refuse("microbatches",
         fmt::format("{} over {} devices needs {} {} microbatches, not {}",
                     interleaved ? "an interleaved pipeline" : "dualpipe-v", devices,
                     interleaved ? "a multiple of" : "at least", interleaved ? devices : 2 * devices, microbatches),
         "change the number of microbatches, or use schedule 1f1b, with one stage per device");
}

std::vector<PipelineTask> pipeline_tasks(PipelineSchedule schedule, std::size_t device, std::size_t devices,
                                         std::size_t microbatches, std::size_t chunks) {
  check_microbatches(schedule, devices, microbatches);
  const std::size_t i = device, p = devices, m = microbatches;
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return in_turn(m, m, m, 1);
    case PipelineSchedule::one_f_one_b:
      return in_turn(p - 1 - i, m, m, 1);
    case PipelineSchedule::interleaved:
      return in_turn(m == p ? m * chunks : 2 * (p - 1 - i) + (chunks - 1) * p, chunks > 1 ? p : m, m, chunks);
    case PipelineSchedule::zb_h1:
      return zb_h1(i, p, m);
    case PipelineSchedule::zb_h2:
      return zb_h2(i, p, m);
    case PipelineSchedule::zb_v:
      return zb_v(i, p, m);
    case PipelineSchedule::v_half:
      return by_blocks(true, i, p, m);
    case PipelineSchedule::v_min:
      return by_blocks(false, i, p, m);
    case PipelineSchedule::dualpipe_v:
      return dualpipe_v(i, p, m);
  }
  return {};
}

}  // namespace trainyard
