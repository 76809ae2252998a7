#include "trainyard/place/exact/sequencing.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace trainyard::detail {
namespace {

constexpr std::size_t kMostKeyed = 256;    // tasks that a Key has bits for
constexpr std::size_t kMostSeen = 50'000;  // states remembered for one placement

}  // namespace

std::size_t Sequencing::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const std::uint64_t word : key) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

void Sequencing::reset(const Tasks& tasks) {
  tasks_ = &tasks;
  const std::size_t count = tasks.tasks.size();
  ready_.resize(count);
  for (std::size_t t = 0; t < count; ++t) ready_[t] = tasks.tasks[t].release;
  start_.assign(count, -1);
  free_.assign(model_.resources, 0);
  if (!model_.available.empty()) free_ = model_.available;
  jobs_.resize(model_.resources);
  waits_.resize(count);
  done_.clear();
  changes_.clear();
  makespan_ = 0;
  scheduled_ = {};
  seen_.clear();
  seen_count_ = 0;
  for (std::uint32_t t = 0; t < count; ++t) waits_[t] = tasks.tasks[t].waits_for;
  for (std::uint32_t t = 0; t < count; ++t)
    if (start_[t] < 0 && tasks.tasks[t].waits_for == 0 && tasks.tasks[t].duration == 0) finish(t, ready_[t]);
}

std::int64_t Sequencing::earliest(std::uint32_t task) const {
  std::int64_t time = ready_[task];
  for (const std::uint32_t resource : tasks_->tasks[task].resources) time = std::max(time, free_[resource]);
  return time;
}

void Sequencing::finish(std::uint32_t task, std::int64_t start) {
  const Tasks::Task& it = tasks_->tasks[task];
  const std::int64_t end = start + it.duration;
  start_[task] = start;
  done_.push_back(task);
  scheduled_[(task >> 6) & 3] |= std::uint64_t{1} << (task & 63);
  if (end + it.beyond > makespan_) set(makespan_, end + it.beyond);
  for (const std::uint32_t next : it.after)
    if (end > ready_[next]) set(ready_[next], end);
  for (const std::uint32_t next : it.after)
    if (--waits_[next] == 0 && tasks_->tasks[next].duration == 0) finish(next, ready_[next]);
}

void Sequencing::schedule(std::uint32_t task) {
  const Tasks::Task& it = tasks_->tasks[task];
  const std::int64_t start = earliest(task);
  for (const std::uint32_t resource : it.resources) set(free_[resource], start + it.duration + model_.gap[resource]);
  finish(task, start);
}

void Sequencing::restore(std::size_t changes, std::size_t done) {
  while (changes_.size() > changes) {
    *changes_.back().where = changes_.back().before;
    changes_.pop_back();
  }
  while (done_.size() > done) {
    const std::uint32_t task = done_.back();
    done_.pop_back();
    start_[task] = -1;
    scheduled_[(task >> 6) & 3] &= ~(std::uint64_t{1} << (task & 63));
    for (const std::uint32_t next : tasks_->tasks[task].after) ++waits_[next];
  }
}

std::int64_t Sequencing::node_bound() {
  heads_ = ready_;
  for (auto& jobs : jobs_) jobs.clear();
  std::int64_t bound = makespan_;
  for (const std::uint32_t t : tasks_->order) {
    if (start_[t] >= 0) continue;
    const Tasks::Task& task = tasks_->tasks[t];
    std::int64_t& head = heads_[t];
    for (const std::uint32_t resource : task.resources) head = std::max(head, free_[resource]);
    bound = std::max(bound, head + task.duration + task.tail);
    if (bound >= state_.limit) return bound;
    for (const std::uint32_t next : task.after) heads_[next] = std::max(heads_[next], head + task.duration);
    for (const std::uint32_t r : task.resources)
      jobs_[r].push_back({head, task.duration + model_.gap[r], task.tail - model_.gap[r]});
  }
  for (auto& jobs : jobs_)
    if (jobs.size() > 1) bound = std::max(bound, one_machine_bound(jobs, waiting_));
  return bound;
}

bool Sequencing::dominated() {
  if (tasks_->tasks.size() > kMostKeyed) return false;
  // Dominated if every remaining task could start at least as early in a state searched before.
  std::vector<std::int64_t> front{makespan_};
  for (std::uint32_t t = 0; t < start_.size(); ++t)
    if (start_[t] < 0) front.push_back(earliest(t));
  auto& states = seen_[scheduled_];
  for (const auto& other : states) {
    bool as_early = true;
    for (std::size_t i = 0; as_early && i < front.size(); ++i) as_early = other[i] <= front[i];
    if (as_early) return true;
  }
  if (seen_count_ < kMostSeen) {
    states.push_back(std::move(front));
    ++seen_count_;
  }
  return false;
}

void Sequencing::descend() {
  if (!state_.enter()) return;
  if (done_.size() == tasks_->tasks.size()) {
    if (makespan_ < state_.limit) (*found_)(start_, makespan_);
    return;
  }
  if (node_bound() >= state_.limit || dominated()) return;

  // The eligible tasks, and the one that could end first.
  struct Candidate {
    std::int64_t urgency, start;
    std::uint32_t task;
    bool linked;
  };
  std::vector<Candidate> candidates;
  std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
  std::uint32_t first = 0;
  for (std::uint32_t t = 0; t < start_.size(); ++t) {
    if (start_[t] >= 0 || waits_[t] > 0) continue;
    const Tasks::Task& task = tasks_->tasks[t];
    const std::int64_t start = earliest(t);
    candidates.push_back({task.duration + task.tail, start, t, false});
    if (start + task.duration >= first_end) continue;
    first_end = start + task.duration;
    first = t;
  }
  std::int64_t before = first_end;
  if (model_.gaps)  // a task that starts within a gap after the first end also keeps it from moving to the front
    before += *std::ranges::max_element(model_.gap);
  std::erase_if(candidates, [&](const Candidate& c) { return c.start >= before && c.task != first; });
  // With gaps every candidate counts, even without a resource in common: it may lead to a task that starts within the
  // gap.
  std::vector<char> touched(model_.resources, model_.gaps);
  for (const std::uint32_t r : tasks_->tasks[first].resources) touched[r] = 1;
  for (bool more = true; more;) {
    more = false;
    for (Candidate& c : candidates) {
      const auto& resources = tasks_->tasks[c.task].resources;
      if (c.linked) continue;
      if (c.task != first && !model_.gaps && std::ranges::none_of(resources, [&](auto r) { return touched[r] != 0; }))
        continue;
      c.linked = more = true;
      for (const std::uint32_t r : resources) touched[r] = 1;
    }
  }
  std::erase_if(candidates, [](const Candidate& c) { return !c.linked; });
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple{-a.urgency, a.start, a.task} < std::tuple{-b.urgency, b.start, b.task};
  });

  const std::size_t changes = changes_.size(), done = done_.size();
  for (const Candidate& c : candidates) {
    if (c.start + c.urgency >= state_.limit) continue;
    schedule(c.task);
    descend();
    restore(changes, done);
    if (state_.stopped) return;
  }
}

bool Sequencing::search(const Tasks& tasks, const Found& found) {
  reset(tasks);
  found_ = &found;
  descend();
  return !state_.stopped;
}

std::int64_t Sequencing::bound(const Tasks& tasks) {
  reset(tasks);
  return node_bound();
}

}  // namespace trainyard::detail
