#include "trainyard/place/parallel/plan_chain.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/rewrite/op_spec.hpp"

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
  for (const TensorId tensor : graph_.outputs(op)) is_gradient_[tensor] = use.is_gradient[tensor];
  weights_[op] = makes_only_gradients(graph_, op, use.is_gradient);
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

void PlanChain::set_repeated(RepeatedSegments blocks, RepeatedSegments scores) {
  repeated_blocks_ = std::move(blocks);
  repeated_scores_ = std::move(scores);
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

void PlanChain::set_posts() {
  std::size_t now = 0;
  Nanoseconds collectives{0};  // since the last op of the place
  for (const OpId op : path_) {
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
  for (std::size_t i = 0; i + 1 < path_.size(); ++i) {
    const OpId op = path_[i], next = path_[i + 1];
    const bool turns = (place_[op] < blocks_) != (place_[next] < blocks_);
    if (posts_[place_[op]] != op || place_[next] <= place_[op] || turns || !at_home_[next] ||
        collective_[next] > Nanoseconds{0})
      continue;
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

std::vector<PlanChain::Again> PlanChain::again(const RepeatedSegments& repeated) const {
  const std::size_t n = graph_.op_count(), never = path_.size() + 1;
  const auto& order = graph_.topological_order();
  IdMap<OpId, std::size_t> number(n, 0), reached(n, 0), awaited(n, never);  // path positions: own, before, after
  std::vector<Nanoseconds> until{Nanoseconds{0}};                           // path length, by position inclusive
  for (const OpId op : path_) {
    until.push_back(until.back() + time_[op] + collective_[op]);
    number[op] = until.size() - 1;
  }
  struct Way {
    Nanoseconds length, collectives;  // up to an op's end; of collectives since then
  };
  IdMap<OpId, Way> way(n);
  for (const OpId op : order) {
    const std::optional<std::size_t> own = repeated.segment[op];
    Way longest{};
    const auto behind = [&](OpId other) {
      reached[op] = std::max(reached[op], reached[other]);
      const auto whole = [](const Way& each) { return each.length + each.collectives; };
      if (own && repeated.segment[other] == own && whole(way[other]) > whole(longest)) longest = way[other];
    };
    for (const TensorId tensor : graph_.inputs(op)) behind(graph_.producer(tensor));
    for (const OpId other : graph_.after(op)) behind(other);
    if (number[op] > 0) reached[op] = number[op];
    if (longest.length > Nanoseconds{0}) longest.collectives += collective_[op];
    if (time_[op] > Nanoseconds{0} && at_home_[op]) longest = {longest.length + longest.collectives + time_[op], {}};
    if (own) way[op] = longest;
  }
  std::vector<std::size_t> from;  // by segment
  for (const std::vector<OpId>& triggers : repeated.triggers) {
    from.push_back(0);
    for (const OpId op : triggers)
      if (collective_[op] == Nanoseconds{0} && graph_.phase(op) == Phase::backward)
        from.back() = std::max(from.back(), reached[op]);
  }
  std::vector<Again> result(blocks_);
  IdMap<OpId, std::size_t> copy_awaited(n, never);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const OpId op = *at;
    const std::optional<std::size_t> own = repeated.segment[op];
    const auto ahead = [&](OpId other) {
      awaited[op] = std::min(awaited[op], awaited[other]);
      if (own && graph_.phase(other) == Phase::backward)
        copy_awaited[op] = std::min(copy_awaited[op], awaited[other]);
      else if (own && repeated.segment[other] == own)
        copy_awaited[op] = std::min(copy_awaited[op], copy_awaited[other]);
    };
    for (const TensorId tensor : graph_.outputs(op))
      for (const OpId reader : graph_.consumers(tensor)) ahead(reader);
    for (const OpId later : graph_.before(op)) awaited[op] = std::min(awaited[op], awaited[later]);
    if (number[op] > 0) awaited[op] = number[op];
    const OpId post = posts_[2 * blocks_ - 1 - block_[op]];
    if (!own || !at_home_[op] || time_[op] == Nanoseconds{0} || post.is_none() || copy_awaited[op] > number[post])
      continue;
    Again& block = result[block_[op]];
    block.ops += time_[op];
    if (from[*own] == 0 || from[*own] >= copy_awaited[op]) continue;
    const Nanoseconds longer = way[op].length - (until[copy_awaited[op] - 1] - until[from[*own]]);
    if (longer <= block.along) continue;
    block.along = longer;
    block.from = from[*own];
    block.to = copy_awaited[op];
  }
  return result;
}

/// Recomputation of several blocks lengthens the path by all their additions only if the parts of the path that they
/// replace do not overlap. Drops the additions of blocks that overlap.
void PlanChain::leave_overlapping(std::vector<Again>& blocks, std::vector<Again>& scores) {
  std::size_t last = 0;
  for (std::size_t b = blocks.size(); b-- > 0;) {
    const bool overlaps = (blocks[b].to > 0 && blocks[b].from < last) || (scores[b].to > 0 && scores[b].from < last);
    if (overlaps) blocks[b].along = scores[b].along = Nanoseconds{0};
    if (!overlaps) last = std::max({last, blocks[b].to, scores[b].to});
  }
}

/// Time of the ops that a device runs before and for a gradient: the op that makes it, the ops of the backward pass up
/// to the last post before that op, and the ops that make weight gradients from inputs that were ready before that post
/// began. A device takes ops in the order in which they can start.
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

/// Length of the backward path up to the last post before the op that makes a gradient, and that op.
Nanoseconds PlanChain::along_path(OpId gradient) const {
  Nanoseconds sum = time_[gradient];
  for (std::size_t place = blocks_; place < behind_[gradient]; ++place) sum += along_[place];
  return sum;
}

/// By block: whether a stage that begins with it shares no gradient sum with earlier stages. Sums belong to the stage
/// whose first forward op with inputs is the last such op before the first op of their group, in topological order. So
/// that op must come after all groups with weights of earlier blocks, and before those of its own and later blocks.
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

void PlanChain::take_path(std::vector<LayerCost>& chain, std::vector<LeastWork>& work, const std::vector<Again>& blocks,
                          const std::vector<Again>& scores) const {
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
    work[b].input_gradient = block.input_gradient;
    work[b].weight_gradient = block.weight_gradient;
    // Additions may run while ranks communicate, whichever task makes the gradients that they add.
    if (ranks_ && path_back > inputs) {
      const Nanoseconds ops = block.input_gradient + block.accumulation,
                        whole = path_back > inputs + additions ? back : std::min(back, ops);
      work[b].input_gradient = whole;
      work[b].accumulation = path_back > inputs + additions ? Nanoseconds{0} : ops - whole;
    }
    const auto longer = [&](const Again& again) {
      return !ranks_ || path_back <= inputs ? again.ops
             : path_back > inputs + weights ? again.along
                                            : std::min(again.ops, again.along);
    };
    block.again = longer(blocks[b]);
    block.scores_forward = longer(scores[b]);
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
  path_ = longest_path();
  set_posts();
  order_by_posts();
  std::vector<LayerCost> chain = likely;
  std::vector<LeastWork> work(blocks_);
  for (std::size_t b = 0; b < blocks_; ++b) {
    LayerCost& block = chain[b];
    block.forward = block.input_gradient = block.weight_gradient = block.rank_sums = Nanoseconds{0};
    block.backward_memory.reset();
    block.output = sent_[b];
    block.input = sent_[2 * blocks_ - 1 - b];
  }
  std::vector<std::size_t> previous(posts_.size(), 0);  // 1 + place of the post before
  for (std::size_t place = 0, last = 0; place < posts_.size(); ++place) {
    previous[place] = last;
    if (!posts_[place].is_none()) last = place + 1;
  }
  const std::vector<bool> own = own_sums();
  for (std::size_t b = 0; b < blocks_; ++b) {
    work[b].has_own_sum = own[b];
    work[b].additions_take_time = additions_take_time_[b];
  }
  // A block without time occupies no device. The chain ends with the ops that make weight gradients of the first block
  // only.
  for (std::size_t b = 0; b < blocks_; ++b)
    work[b].on_chain = !posts_[b].is_none() && (b == 0 || !posts_[2 * blocks_ - 1 - b].is_none());
  for (const OpId op : graph_.ops()) {
    const std::size_t b = block_[op];
    if (graph_.phase(op) == Phase::update) continue;
    if (weights_[op] && behind_[op] < previous[2 * blocks_ - 1 - b]) work[b].on_chain = false;
    (graph_.phase(op) == Phase::forward ? work[b].forward : work[b].backward) += time_[op];
    if (!weights_[op]) {  // collectives of weight gradients run once a step
      work[b].links += collective_[op];
      if (graph_.phase(op) == Phase::backward && collective_[op] > Nanoseconds{0}) {
        const Nanoseconds ahead = ahead_of(op) - time_[op];
        if (work[b].links_back == Nanoseconds{0} || ahead < work[b].ahead_of_links) work[b].ahead_of_links = ahead;
        work[b].links_back += collective_[op];
      }
    }
    if (repeated_blocks_.segment[op]) work[b].again += time_[op];
    if (repeated_scores_.segment[op]) work[b].scores_again += time_[op];
    for (const TensorId tensor : graph_.outputs(op)) {
      const auto readers = graph_.consumers(tensor);
      if (graph_.phase(op) == Phase::backward && is_gradient_[tensor] &&
          std::any_of(readers.begin(), readers.end(),
                      [&](OpId reader) { return graph_.phase(reader) == Phase::update; }))
        work[b].gradients.push_back({ahead_of(op), along_path(op), graph_.bytes(tensor)});
    }
    if (weights_[op]) {
      if (at_home_[op]) chain[b].weight_gradient += time_[op];
    } else if (passes(op) && at_home_[op] && !posts_[place_[op]].is_none() && behind_[op] >= previous[place_[op]] &&
               before_[op] <= place_[op]) {
      (place_[op] < blocks_ ? chain[b].forward : chain[b].input_gradient) += time_[op];
    }
  }
  std::vector<Again> blocks_again = again(repeated_blocks_), scores_again = again(repeated_scores_);
  leave_overlapping(blocks_again, scores_again);
  take_path(chain, work, blocks_again, scores_again);
  return {std::move(chain), std::move(work)};
}

}  // namespace trainyard
