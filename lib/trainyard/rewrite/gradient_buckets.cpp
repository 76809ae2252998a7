#include "trainyard/rewrite/gradient_buckets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/models.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard::detail {

GradientBuckets::GradientBuckets(const Graph& graph, const Replicate& options, const ParameterUse& use,
                                 const ExpertUse& experts)
    : unit(graph.op_count(), kNone),
      by(graph.tensor_count(), kNone),
      turn(graph.op_count(), kNone),
      graph_(graph),
      options_(options),
      use_(use),
      position_(graph.op_count()) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) position_[graph.topological_order()[i]] = i;
  find_units(experts);
  if (!options.stages.empty()) find_stages();
  fill_buckets();
}

std::vector<TensorId> GradientBuckets::gradients(const Bucket& bucket) const {
  std::vector<TensorId> all;
  for (const std::size_t each : bucket.units)
    all.insert(all.end(), units[each].gradients.begin(), units[each].gradients.end());
  return all;
}

/// The model's name with its mark if the graph has several models (rewrite/models.hpp); otherwise empty.
std::string GradientBuckets::model_of(OpId op) const {
  const std::string_view name = graph_.name(op);
  const std::size_t at = name.find(kModelMark);
  return std::string{at == std::string_view::npos ? std::string_view{} : name.substr(0, at + kModelMark.size())};
}

void GradientBuckets::find_units(const ExpertUse& experts) {
  std::map<std::string_view, std::size_t> by_group;
  for (const OpId op : graph_.ops()) {
    const bool update = graph_.phase(op) == Phase::update;
    if ((!update && !holds_parameters(graph_, op) && !use_.in_group[op]) || graph_.collective(op)) continue;
    const std::string& group = graph_.colocation_group(op);
    const std::size_t fresh = units.size();
    unit[op] = group.empty() ? fresh : by_group.try_emplace(group, fresh).first->second;
    if (unit[op] == fresh)
      units.push_back({.group = group.empty() ? std::string{graph_.name(op)} : group, .first = op});
    Unit& own = units[unit[op]];
    own.of_experts = own.of_experts || (options_.experts > 1 && experts.inside[op]);
    if (!update) {
      own.parameters += graph_.parameter_bytes(op);
      continue;
    }
    own.updates.push_back(op);
    for (const TensorId tensor : graph_.inputs(op)) {
      if (graph_.phase(graph_.producer(tensor)) == Phase::update) continue;
      const auto readers = graph_.consumers(tensor);
      const auto is_in = [&](OpId reader, const std::string& name) {
        return graph_.phase(reader) == Phase::update && graph_.colocation_group(reader) == name;
      };
      const std::string& maker = graph_.colocation_group(graph_.producer(tensor));
      if (by[tensor] != kNone || (maker != group && std::any_of(readers.begin(), readers.end(),
                                                                [&](OpId reader) { return is_in(reader, maker); })))
        continue;
      by[tensor] = unit[op];
      own.is_tied = own.is_tied || std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
                      return graph_.phase(reader) == Phase::update && !is_in(reader, group);
                    });
      own.is_sent = own.is_sent || std::any_of(readers.begin(), readers.end(),
                                               [&](OpId reader) { return graph_.type(reader) == kBoundaryType; });
      own.is_term = graph_.type(op) == kRelayType;
      own.gradients.push_back(tensor);
      own.bytes += graph_.bytes(tensor);
      own.made = std::max(own.made, position_[graph_.producer(tensor)]);
    }
  }
}

void GradientBuckets::find_stages() {
  const OpIndex index{graph_};
  std::vector<std::size_t> begins;
  for (const std::string& name : options_.stages) {
    const auto op = index.find(name);
    if (!op)
      refuse("unknown-op", fmt::format("no op is named '{}', which is given as the first op of a stage", name),
             "name ops of the graph before it is replicated");
    begins.push_back(position_[*op]);
  }
  for (Unit& each : units) {
    // Terms that tensor ranks add up belong to the stage of their parameters.
    const std::size_t owner = each.is_term ? unit[graph_.producer(each.gradients.front())] : kNone;
    const OpId first = owner == kNone ? each.first : units[owner].first;
    each.stage = static_cast<std::size_t>(
        std::ranges::count_if(begins, [&](std::size_t begin) { return begin <= position_[first]; }));
  }
}

void GradientBuckets::fill_buckets() {
  std::vector<std::size_t> order;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (!units[u].gradients.empty()) order.push_back(u);
  sort_by(order, [&](std::size_t u) { return units[u].made; });
  // The open bucket by model, stage, tensor rank, whether of experts, and whether of terms. Each unit of tied copies
  // has its own bucket, so that replicas have the same shares of all copies.
  std::map<std::tuple<std::string, std::size_t, std::size_t, bool, bool, std::size_t>, std::size_t> open;
  for (const std::size_t u : order) {
    // No two replicas hold the same experts.
    if (units[u].of_experts && options_.experts == options_.replicas) continue;
    const std::string model = model_of(units[u].first);
    const auto [at, added] = open.try_emplace({model, units[u].stage, tensor_rank(units[u].group), units[u].of_experts,
                                               units[u].is_term, units[u].is_tied ? u : kNone},
                                              buckets.size());
    if (!added && buckets[at->second].bytes >= options_.bucket) at->second = buckets.size();
    if (at->second == buckets.size())
      buckets.push_back(
          {.model = model, .of_experts = units[u].of_experts, .is_whole = units[u].is_term || units[u].is_sent});
    Bucket& bucket = buckets[at->second];
    bucket.units.push_back(u);
    bucket.parameters += units[u].parameters;
    bucket.bytes += units[u].bytes;
    units[u].bucket = at->second;
  }
}

GradientBuckets::Place GradientBuckets::place_of(const Bucket& bucket) const {
  const Unit& first = first_of(bucket);
  return {bucket.model, first.stage, tensor_rank(first.group)};
}

bool GradientBuckets::makes_gradients_alone(OpId op) const {
  const auto made = graph_.outputs(op);
  return std::all_of(made.begin(), made.end(), [&](TensorId tensor) { return bool{use_.is_gradient[tensor]}; });
}

void GradientBuckets::find_turns() {
  const auto made = [&](std::size_t b) {
    return units[*std::ranges::max_element(buckets[b].units, {}, [&](std::size_t u) { return units[u].made; })].made;
  };
  const auto makes_alone = [&](TensorId gradient) { return makes_gradients_alone(graph_.producer(gradient)); };
  std::map<Place, std::vector<std::size_t>> sequences;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    if (!buckets[b].is_whole) sequences[place_of(buckets[b])].push_back(b);
  for (auto& [place, sequence] : sequences) {
    sort_by(sequence, made);
    const std::size_t count = sequence.size();
    for (std::size_t i = 0; i < count && count >= 2; ++i) {
      Bucket& own = buckets[sequence[i]];
      own.of_microbatch_before = i < 2;
      const std::size_t earlier = sequence[(i + count - 2) % count];
      const std::size_t begin = i < 2 ? 0 : made(earlier) + 1;
      // Passes that only make gradients of weights may come after all that make other gradients (zero bubble).
      const bool comes_behind = std::ranges::any_of(gradients(buckets[earlier]), makes_alone);
      for (const TensorId gradient : gradients(own)) {
        const OpId op = graph_.producer(gradient);
        if (position_[op] < begin || (comes_behind && !makes_alone(gradient))) continue;
        own.two_before = earlier;
        turn[op] = sequence[i];
      }
    }
  }
}

void GradientBuckets::find_fetches() {
  for (const OpId op : graph_.topological_order()) {
    if (graph_.phase(op) == Phase::update) continue;
    std::vector<std::size_t> read;
    for (const OpId holder : use_.reads[op])
      if (of(holder) != kNone) read.push_back(of(holder));
    std::ranges::sort(read);
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (const std::size_t b : read) buckets[b].readers[graph_.phase(op) == Phase::forward ? 0 : 1].push_back(op);
  }
  std::map<Place, std::vector<std::pair<std::size_t, int>>> sequences;  // buckets and passes, by first use
  for (const int pass : {0, 1}) {
    std::vector<std::size_t> order;
    for (std::size_t b = 0; b < buckets.size(); ++b)
      if (!buckets[b].readers[pass].empty()) order.push_back(b);
    std::ranges::sort(order, {}, [&](std::size_t b) { return position_[buckets[b].readers[pass].front()]; });
    for (const std::size_t b : order) sequences[place_of(buckets[b])].emplace_back(b, pass);
  }
  for (const auto& [place, sequence] : sequences)
    for (std::size_t i = 2; i < sequence.size(); ++i) {
      const auto [b, pass] = sequence[i];
      const auto [earlier, its_pass] = sequence[i - 2];
      const std::size_t first = position_[buckets[b].readers[pass].front()];
      // Later readers (of tied weights) may need this bucket themselves.
      for (const OpId reader : buckets[earlier].readers[its_pass])
        if (position_[reader] < first) buckets[b].before[pass].push_back(reader);
    }
}

}  // namespace trainyard::detail
