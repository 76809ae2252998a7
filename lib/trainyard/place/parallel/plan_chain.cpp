#include "trainyard/place/parallel/plan_chain.hpp"

#include <algorithm>
#include <cstdint>

namespace trainyard {

PlanChain::PlanChain(const Problem& share, std::size_t blocks)
    : share_(share),
      graph_(share.graph()),
      blocks_(blocks),
      time_(share.op_count(), Nanoseconds{0}),
      collective_(share.op_count(), Nanoseconds{0}),
      block_(share.op_count(), 0),
      place_(share.op_count(), kNone),
      at_home_(share.op_count(), 0),
      weights_(share.op_count(), 0),
      additions_take_time_(blocks, true),
      is_gradient_(share.graph().tensor_count(), 0),
      posts_(2 * blocks, OpId::none()),
      along_(2 * blocks, Nanoseconds{0}),
      sent_(2 * blocks, Bytes{0}),
      behind_(share.op_count(), 0),
      before_(share.op_count(), kNone) {}

void PlanChain::add_op(OpId op, std::size_t block, bool at_home, const ParameterUse& use) {
  time_[op] = share_.shortest(op);
  block_[op] = block;
  at_home_[op] = at_home;
  const auto made = graph_.outputs(op);
  for (const TensorId tensor : made) is_gradient_[tensor] = use.is_gradient[tensor];
  weights_[op] = graph_.phase(op) == Phase::backward && !made.empty() &&
                 std::all_of(made.begin(), made.end(), [&](TensorId t) { return bool{use.is_gradient[t]}; });
  if (graph_.phase(op) == Phase::forward)
    place_[op] = block;
  else if (graph_.phase(op) == Phase::backward && !weights_[op])
    place_[op] = 2 * blocks_ - 1 - block;
}

void PlanChain::add_collective(OpId op, std::size_t block, Nanoseconds time) {
  collective_[op] = time;
  block_[op] = block;
  ranks_ = true;
}

void PlanChain::add_accumulation(OpId maker, Nanoseconds time) {
  if (time == Nanoseconds{0}) additions_take_time_[block_[maker]] = false;
}

std::vector<OpId> PlanChain::longest_path() const {
  IdMap<OpId, Nanoseconds> end(graph_.op_count(), Nanoseconds{0});
  IdMap<OpId, OpId> from(graph_.op_count(), OpId::none());
  OpId last = OpId::none();
  for (const OpId op : graph_.topological_order()) {
    if (!passes(op)) continue;
    const auto behind = [&](OpId other) {
      if (passes(other) && (from[op].is_none() || end[other] > end[from[op]])) from[op] = other;
    };
    for (const TensorId tensor : graph_.inputs(op)) behind(graph_.producer(tensor));
    for (const OpId other : graph_.after(op)) behind(other);
    end[op] = time_[op] + collective_[op] + (from[op].is_none() ? Nanoseconds{0} : end[from[op]]);
    if (last.is_none() || end[op] >= end[last]) last = op;
  }
  std::vector<OpId> path;
  for (OpId op = last; !op.is_none(); op = from[op]) path.push_back(op);
  std::ranges::reverse(path);
  return path;
}

void PlanChain::set_posts(const std::vector<OpId>& path) {
  std::size_t now = 0;
  Nanoseconds collectives{0};  // since the last op of the place
  for (const OpId op : path) {
    if (time_[op] == Nanoseconds{0} || !at_home_[op] || place_[op] < now) {
      collectives += collective_[op];
      continue;
    }
    const bool first = posts_[place_[op]].is_none();
    if (!first) along_[place_[op]] += collectives;
    now = place_[op];
    posts_[now] = op;
    along_[now] += time_[op];
    collectives = Nanoseconds{0};
  }
  for (std::size_t i = 0; i + 1 < path.size() && !ranks_; ++i) {
    const OpId op = path[i], next = path[i + 1];
    const bool turns = (place_[op] < blocks_) != (place_[next] < blocks_);
    if (posts_[place_[op]] != op || place_[next] <= place_[op] || turns || !at_home_[next]) continue;
    for (const TensorId tensor : graph_.inputs(next))
      if (graph_.producer(tensor) == op) sent_[place_[op]] = graph_.bytes(tensor);
  }
}

void PlanChain::order_by_posts() {
  const auto post = [&](OpId op) { return passes(op) && posts_[place_[op]] == op; };
  const auto& order = graph_.topological_order();
  for (const OpId op : order) {
    const auto behind = [&](OpId other) {
      behind_[op] = std::max(behind_[op], post(other) ? place_[other] + 1 : behind_[other]);
    };
    for (const TensorId tensor : graph_.inputs(op)) behind(graph_.producer(tensor));
    for (const OpId other : graph_.after(op)) behind(other);
  }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const OpId op = *at;
    for (const TensorId tensor : graph_.outputs(op))
      for (const OpId reader : graph_.consumers(tensor)) before_[op] = std::min(before_[op], before_[reader]);
    for (const OpId later : graph_.before(op)) before_[op] = std::min(before_[op], before_[later]);
    if (post(op)) before_[op] = place_[op];
  }
}

/// What makes a gradient, the ops of the backward pass no later than the last post before that, and what makes
/// gradients of weights of what was there before that post began: a device takes ops in the order in which they can
/// start.
Nanoseconds PlanChain::ahead_of(OpId gradient) {
  const std::size_t place = behind_[gradient];
  if (place == 0) return time_[gradient];
  if (const auto known = ahead_.find(place); known != ahead_.end()) return known->second + time_[gradient];
  Nanoseconds& sum = ahead_[place];
  for (const OpId op : graph_.ops()) {
    if (graph_.phase(op) != Phase::backward) continue;
    bool there = before_[op] < place;
    if (weights_[op]) {
      there = true;
      const auto ready = [&](OpId other) { there = there && before_[other] < place - 1; };
      for (const TensorId tensor : graph_.inputs(op)) ready(graph_.producer(tensor));
      for (const OpId other : graph_.after(op)) ready(other);
    }
    if (there) sum += time_[op];
  }
  return sum + time_[gradient];
}

/// Sums are of the stage whose first forward op with inputs is the last one before the first op of their group, in
/// topological order. So a stage that begins with a block shares none with those before it where that op is behind all
/// groups with weights of the blocks before, and ahead of its own and those behind it.
std::vector<bool> PlanChain::own_sums() const {
  const std::size_t n = graph_.op_count();
  IdMap<OpId, std::size_t> position(n);
  std::vector<std::size_t> first(blocks_, n), least(blocks_ + 1, n), most(blocks_ + 1, 0);  // positions plus 1
  for (std::size_t i = 0; i < n; ++i) {
    const OpId op = graph_.topological_order()[i];
    position[op] = i + 1;
    if (graph_.phase(op) == Phase::forward && !graph_.inputs(op).empty())
      first[block_[op]] = std::min(first[block_[op]], i + 1);
  }
  std::vector<bool> own(blocks_, false);
  for (const OpId op : graph_.ops()) {
    const auto inputs = graph_.inputs(op);
    if (graph_.phase(op) != Phase::update || std::all_of(inputs.begin(), inputs.end(), [&](TensorId tensor) {
          return graph_.phase(graph_.producer(tensor)) == Phase::update;
        }))
      continue;
    const auto group = share_.group_ops(share_.group(op));
    const std::size_t b = block_[group.front()];
    for (const OpId other : group) {
      if (graph_.phase(other) != Phase::forward) return std::vector<bool>(blocks_, false);
      least[b] = std::min(least[b], position[other]);
      most[b + 1] = std::max(most[b + 1], position[other]);
      own[b] = own[b] || graph_.parameter_bytes(other) > Bytes{0};
      if (graph_.parameter_bytes(other) > Bytes{0}) break;  // no later op is the first one with parameters
    }
  }
  for (std::size_t b = blocks_; b-- > 0;) least[b] = std::min(least[b], least[b + 1]);
  for (std::size_t b = 0; b < blocks_; ++b) most[b + 1] = std::max(most[b], most[b + 1]);
  for (std::size_t b = 1; b < blocks_; ++b) own[b] = own[b] && most[b] < first[b] && first[b] <= least[b];
  return own;
}

void PlanChain::take_path(std::vector<LayerCost>& chain, std::vector<LeastWork>& work) const {
  Nanoseconds forward{0}, inputs{0}, weights{0}, additions{0}, path_forward{0}, path_back{0};
  for (std::size_t b = 0; b < blocks_; ++b) {
    forward += chain[b].forward;
    inputs += chain[b].input_gradient;
    weights += chain[b].weight_gradient;
    additions += chain[b].accumulation;
    path_forward += along_[b];
    path_back += along_[2 * blocks_ - 1 - b];
  }
  for (std::size_t b = 0; b < blocks_; ++b) {
    LayerCost& block = chain[b];
    const Nanoseconds back = along_[2 * blocks_ - 1 - b], both = block.input_gradient + block.weight_gradient;
    work[b].accumulation = block.accumulation;
    work[b].input_gradient = ranks_ && path_back > inputs ? back : block.input_gradient;
    work[b].weight_gradient = block.weight_gradient;
    if (ranks_ && path_forward > forward) block.forward = along_[b];
    if (!ranks_ || path_back <= inputs) continue;
    if (path_back > inputs + weights) {
      const Nanoseconds whole =
          path_back > inputs + weights + additions ? back : std::min(back, both + block.accumulation);
      block.accumulation =
          path_back > inputs + weights + additions ? Nanoseconds{0} : both + block.accumulation - whole;
      block.input_gradient = whole;
      block.weight_gradient = Nanoseconds{0};
    } else {
      block.input_gradient = std::min(back, both);
      block.weight_gradient = both - block.input_gradient;
    }
  }
}

std::pair<std::vector<LayerCost>, std::vector<LeastWork>> PlanChain::run(const std::vector<LayerCost>& likely) {
  set_posts(longest_path());
  order_by_posts();
  std::vector<LayerCost> chain = likely;
  std::vector<LeastWork> work(blocks_);
  for (std::size_t b = 0; b < blocks_; ++b) {
    LayerCost& block = chain[b];
    block.forward = block.input_gradient = block.weight_gradient = block.rank_sums = Nanoseconds{0};
    block.output = sent_[b];
    block.input = sent_[2 * blocks_ - 1 - b];
    block.scores_forward = Nanoseconds{0};
  }
  std::vector<std::size_t> previous(posts_.size(), 0);  // 1 more than the place of the post before
  for (std::size_t place = 0, last = 0; place < posts_.size(); ++place) {
    previous[place] = last;
    if (!posts_[place].is_none()) last = place + 1;
  }
  const std::vector<bool> own = own_sums();
  for (std::size_t b = 0; b < blocks_; ++b) {
    work[b].has_own_sum = own[b];
    work[b].additions_take_time = additions_take_time_[b];
  }
  // A block of no time keeps no device; the chain ends with what makes gradients of the first block's weights alone.
  for (std::size_t b = 0; b < blocks_; ++b)
    work[b].on_chain = !posts_[b].is_none() && (b == 0 || !posts_[2 * blocks_ - 1 - b].is_none());
  for (const OpId op : graph_.ops()) {
    const std::size_t b = block_[op];
    if (graph_.phase(op) == Phase::update) continue;
    if (weights_[op] && behind_[op] < previous[2 * blocks_ - 1 - b]) work[b].on_chain = false;
    (graph_.phase(op) == Phase::forward ? work[b].forward : work[b].backward) += time_[op];
    work[b].links += collective_[op];
    for (const TensorId tensor : graph_.outputs(op)) {
      const auto readers = graph_.consumers(tensor);
      if (graph_.phase(op) == Phase::backward && is_gradient_[tensor] &&
          std::any_of(readers.begin(), readers.end(),
                      [&](OpId reader) { return graph_.phase(reader) == Phase::update; }))
        work[b].gradients.emplace_back(ahead_of(op), graph_.bytes(tensor));
    }
    if (weights_[op]) {
      if (at_home_[op]) chain[b].weight_gradient += time_[op];
    } else if (passes(op) && at_home_[op] && !posts_[place_[op]].is_none() && behind_[op] >= previous[place_[op]] &&
               before_[op] <= place_[op]) {
      (place_[op] < blocks_ ? chain[b].forward : chain[b].input_gradient) += time_[op];
    }
  }
  take_path(chain, work);
  return {std::move(chain), std::move(work)};
}

}  // namespace trainyard
