#include "trainyard/plan/schedule_graph.hpp"

#include <algorithm>

namespace trainyard {

ScheduleGraph::ScheduleGraph(const ParallelPlan& plan, std::size_t microbatches, const TaskRules& rules, bool sums)
    : plan_(plan),
      devices_(plan.devices_in_row()),
      additions_(rules.last_addition_behind ? std::max<std::size_t>(microbatches, 2) - 2 : microbatches - 1),
      final_(devices_, std::vector<std::size_t>(plan.chunks, 0)),
      instants_(devices_),
      tasks_(devices_) {
  const std::size_t stages = plan.stages();
  const TaskParts inside = rules.inside;
  // Where ops make gradients of inputs and of weights together, only an accumulation, if any, comes with the latter.
  const bool accumulates = microbatches > 1 && plan.zero < 2;
  const TaskPart last_made =
      inside == TaskParts::apart && !accumulates ? TaskPart::input_gradient : TaskPart::weight_gradient;
  std::size_t left = 0;
  for (std::size_t i = 0; i < devices_; ++i) {
    tasks_[i] = pipeline_tasks(plan.schedule, i, devices_, microbatches, plan.chunks);
    left += tasks_[i].size();
    for (std::size_t k = 0; k < tasks_[i].size(); ++k)
      if ((parts(tasks_[i][k]) & bit(last_made)) != 0) final_[i][tasks_[i][k].chunk] = k;
    note_instants(i);
  }
  // By (stage, microbatch): nodes that tasks wait for.
  std::vector<std::int32_t> input(stages * microbatches, kNotYet), gradient = input, forward = input, backward = input;
  std::fill_n(input.begin(), microbatches, kNone);
  // Links are per pair of devices; with `apart` per pair of stages, since stages use a link in unknown order.
  const std::size_t ends = inside == TaskParts::apart ? stages : devices_;
  std::vector<std::int32_t> link(ends * ends, kNone);
  std::vector<std::size_t> done(devices_, 0);
  std::vector<std::int32_t> last(devices_, kNone);  // by device
  const auto send = [&](std::size_t from, std::size_t to, std::int32_t made) {
    const std::size_t a = device(from), b = device(to);
    if (a == b) return made;
    std::int32_t& behind = inside == TaskParts::apart ? link[from * ends + to] : link[a * ends + b];
    return behind = add(from, bit(from < to ? TaskPart::onward : TaskPart::back), made, behind);
  };
  for (std::size_t before = 0; left > 0 && left != before;) {
    before = left;
    for (std::size_t i = 0; i < devices_; ++i)
      for (; done[i] < tasks_[i].size(); ++done[i], --left) {
        const PipelineTask& task = tasks_[i][done[i]];
        const std::size_t s = stage(i, task.chunk), at = s * microbatches + task.microbatch;
        const bool final = s + 1 == stages;
        const std::int32_t ready = task.pass == Pass::forward           ? input[at]
                                   : task.pass == Pass::weight_gradient ? backward[at]
                                   : final || forward[at] == kNotYet    ? forward[at]
                                                                        : gradient[at];
        if (ready == kNotYet) break;
        const bool makes_last = sums && done[i] == final_[i][task.chunk];
        if (makes_last) ends_.push_back({i, add(s, 0, last[i], ready), done[i], unfinished(i, done[i])});
        const unsigned all = parts(task), before_made = bit(TaskPart::again),
                       made = inside == TaskParts::apart ? bit(TaskPart::input_gradient) : all;
        const bool splits = inside == TaskParts::apart && (all & made) != 0;
        if (splits) last[i] = add(s, before_made, last[i], kNone);
        const std::int32_t end = last[i] = add(s, splits ? made : all, last[i], ready);
        if (splits && (all & ~(before_made | made)) != 0) last[i] = add(s, all & ~(before_made | made), last[i], kNone);
        if (makes_last) ends_.push_back({i, last[i], done[i] + 1, {}, s});
        if (task.pass == Pass::forward) {
          forward[at] = end;
          if (!final) input[at + microbatches] = send(s, s + 1, end);
        } else if (task.pass != Pass::weight_gradient) {
          backward[at] = end;
          if (s > 0) gradient[at - microbatches] = send(s, s - 1, end);
        }
      }
  }
  end_.resize(nodes_.size());
  for (std::size_t i = 0; i < devices_ && !sums; ++i) ends_.push_back({i, last[i], tasks_[i].size(), unfinished(i, 0)});
}

unsigned ScheduleGraph::parts(const PipelineTask& task) const {
  if (task.pass == Pass::forward) return bit(TaskPart::forward);
  unsigned parts = task.pass == Pass::weight_gradient ? 0 : bit(TaskPart::again) | bit(TaskPart::input_gradient);
  if (task.pass != Pass::input_gradient) parts |= bit(TaskPart::weight_gradient);
  if (task.pass != Pass::input_gradient && task.microbatch > 0 && task.microbatch <= additions_)
    parts |= bit(TaskPart::accumulation);
  return parts;
}

void ScheduleGraph::count(const PipelineTask& task, PartSums& counts) const {
  each_part(parts(task), [&](TaskPart part) { ++counts[part]; });
}

std::vector<double> ScheduleGraph::ends(const std::vector<PartSums>& times) {
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    double end = std::max(end_of(node.after[0]), end_of(node.after[1]));
    each_part(node.parts, [&](TaskPart part) { end += times[node.stage][part]; });
    end_[n] = end;
  }
  std::vector<double> each;
  for (const End& end : ends_) each.push_back(end_of(end.node));
  return each;
}

std::vector<PartSums> ScheduleGraph::longest_path(const End& end) const {
  std::vector<PartSums> counts(plan_.stages());
  for (std::int32_t n = end.node; n != kNone;) {
    const Node& node = nodes_[static_cast<std::size_t>(n)];
    each_part(node.parts, [&](TaskPart part) { ++counts[node.stage][part]; });
    n = end_of(node.after[1]) > end_of(node.after[0]) ? node.after[1] : node.after[0];
  }
  return counts;
}

std::int32_t ScheduleGraph::add(std::size_t stage, unsigned parts, std::int32_t one, std::int32_t other) {
  nodes_.push_back({static_cast<std::uint32_t>(stage), parts, {one, other}});
  return static_cast<std::int32_t>(nodes_.size() - 1);
}

/// Stages whose last weight gradients are made by this task of the device or a later one.
std::vector<std::size_t> ScheduleGraph::unfinished(std::size_t device, std::size_t task) const {
  std::vector<std::size_t> stages;
  for (std::size_t c = 0; c < plan_.chunks; ++c)
    if (final_[device][c] >= task) stages.push_back(stage(device, c));
  return stages;
}

void ScheduleGraph::note_instants(std::size_t device) {
  auto& kept = instants_[device];
  Held now{std::vector<std::size_t>(plan_.chunks, 0), std::vector<std::size_t>(plan_.chunks, 0)};
  const auto covers = [](const Held& one, const Held& other) {
    return std::ranges::equal(one.microbatches, other.microbatches, std::ranges::greater_equal{}) &&
           std::ranges::equal(one.gradients, other.gradients, std::ranges::greater_equal{});
  };
  for (const PipelineTask& task : tasks_[device]) {
    if (task.pass == Pass::forward) {
      ++now.microbatches[task.chunk];
      if (std::ranges::any_of(kept, [&](const Held& each) { return covers(each, now); })) continue;
      std::erase_if(kept, [&](const Held& each) { return covers(now, each); });
      kept.push_back(now);
    } else {
      // The input gradient frees activations that weight gradients do not read.
      if (task.pass != Pass::weight_gradient) --now.microbatches[task.chunk];
      if (task.pass != Pass::input_gradient) now.gradients[task.chunk] = 1;
    }
  }
}

}  // namespace trainyard
