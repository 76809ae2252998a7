#include "trainyard/rewrite/tied_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard {
namespace {

class Tying {
 public:
  Tying(const Graph& graph, const TiedCopies& tied) : graph_(graph), copies_(tied.copies.size()) {
    const OpIndex index{graph};
    for (std::size_t k = 0; k < copies_.size(); ++k)
      for (const std::string& name : tied.copies[k]) take(index.at(name), copies_[k], k + 1);
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      find_holder(copies_[k], k + 1);
      of_group_[graph_.colocation_group(copies_[k].holder)].push_back(k + 1);
    }
    find_sums();
    for (const OpId op : graph.ops()) find_updates(op);
    for (Copy& copy : copies_) find_held(copy);
  }

  TiedCopiesGraph run() {
    for (const OpId op : graph_.ops()) {
      const auto made = graph_.outputs(op);
      if (is_sum(op) && !place(*made.begin())) {
        if (roots_.contains(*made.begin())) add_sums(op);
        continue;  // other sums over several places are parts of these
      }
      OpSpec spec = spec_of(graph_, op);
      if (const std::size_t at = is_sum(op) ? *place(*made.begin()) : place_[op]; at > 0 && !spec.colocate.empty()) {
        spec.colocate = tied_copy_name(spec.colocate, at);
        if (op == copies_[at - 1].first) {
          spec.parameter_bytes += copies_[at - 1].parameters;
          spec.state_bytes += copies_[at - 1].state;
        }
      }
      add(spec, op);
      for (std::size_t k = 1; k <= copies_.size(); ++k)
        if (std::ranges::find(copies_[k - 1].updates, op) != copies_[k - 1].updates.end()) add_update(op, k);
    }
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  struct Copy {
    OpId first = OpId::none(), holder = OpId::none();  // first forward op of the copy; holder of the original
    std::vector<OpId> updates = {};
    Bytes parameters{0}, state{0};
    bool holds_others = false;  // its ops also hold parameters that are not copied, such as a bias
  };
  /// Number of a copy, 0 for the group's own; nothing: several copies.
  using Place = std::optional<std::size_t>;

  void take(OpId op, Copy& copy, std::size_t number) {
    const std::string_view name = graph_.name(op);
    if (place_[op] > 0) refuse("tied", fmt::format("op '{}' is listed for two copies", name), "name each op once");
    if (graph_.phase(op) == Phase::update)
      refuse("tied", fmt::format("op '{}' is an update", name), "name ops of the forward and the backward pass");
    place_[op] = number;
    copy.holds_others = copy.holds_others || holds_parameters(graph_, op);
    if (copy.first.is_none() && graph_.phase(op) == Phase::forward) copy.first = op;
    const std::string& group = graph_.colocation_group(op);
    if (group.empty() || (!copy.holder.is_none() && graph_.colocation_group(copy.holder) != group))
      refuse(
          "tied",
          fmt::format("op '{}' {}", name,
                      group.empty() ? "is in no colocation group" : "is in another colocation group than the others"),
          "list ops of one colocation group for each copy");
    copy.holder = op;
  }

  void find_holder(Copy& copy, std::size_t number) {
    if (copy.first.is_none())
      refuse("tied", fmt::format("copy {} has no op of the forward pass", number),
             "add a forward op that reads the parameters");
    const std::string& group = graph_.colocation_group(copy.holder);
    const auto ops = graph_.ops();
    const auto holder = std::find_if(ops.begin(), ops.end(), [&](OpId op) {
      return graph_.colocation_group(op) == group && holds_parameters(graph_, op) && place_[op] == 0;
    });
    if (holder == ops.end())
      refuse("tied", fmt::format("every op that holds parameters of group '{}' reads a copy", group),
             "leave out the op that holds the original parameters");
    copy.holder = *holder;
  }

  bool is_sum(OpId op) const {
    return graph_.type(op) == "AddGrad" && graph_.phase(op) == Phase::backward && use_.adds_gradients[op];
  }
  /// Finds the place of each sum whose terms are all made in one place.
  void find_sums() {
    for (const OpId op : graph_.topological_order()) {
      if (const auto group = of_group_.find(graph_.colocation_group(op)); group != of_group_.end())
        for (const TensorId term : graph_.inputs(op)) find_place(graph_.producer(term), group->second);
      if (!is_sum(op)) continue;
      const auto terms = graph_.inputs(op);
      const Place first = place(*terms.begin());
      const bool alike = std::all_of(terms.begin(), terms.end(), [&](TensorId term) { return place(term) == first; });
      const auto readers = graph_.consumers(*graph_.outputs(op).begin());
      const bool is_added_later = std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
        return is_sum(reader) || graph_.phase(reader) == Phase::update;
      });
      sums_[op] = alike ? first : is_added_later ? std::nullopt : Place{0};  // otherwise with the group's own copy
    }
  }
  /// Places an op without a group, in which tensor ranks join a gradient of one of these copies, with that copy.
  void find_place(OpId maker, const std::vector<std::size_t>& copies) {
    std::vector<OpId> behind{maker};
    std::set<OpId> seen;
    while (!behind.empty()) {
      const OpId op = behind.back();
      behind.pop_back();
      if (std::ranges::find(copies, place_[op]) != copies.end()) {
        place_[maker] = place_[op];
        return;
      }
      if (!graph_.colocation_group(op).empty() || graph_.phase(op) != Phase::backward || !seen.insert(op).second)
        continue;
      for (const TensorId tensor : graph_.inputs(op)) behind.push_back(graph_.producer(tensor));
      for (const OpId earlier : graph_.after(op)) behind.push_back(earlier);
    }
  }
  Place place(TensorId tensor) const {
    const OpId maker = graph_.producer(tensor);
    return is_sum(maker) ? sums_[maker] : place_[maker];
  }
  /// Finds the terms of a gradient that are each made in one place.
  void find_terms(TensorId tensor, std::map<std::size_t, std::vector<TensorId>>& terms) const {
    if (const Place at = place(tensor))
      terms[*at].push_back(tensor);
    else
      for (const TensorId term : graph_.inputs(graph_.producer(tensor))) find_terms(term, terms);
  }

  /// Finds the copies of what the op updates. An update of parameters that only one copy's ops hold is placed with that
  /// copy.
  void find_updates(OpId op) {
    if (graph_.phase(op) != Phase::update) return;
    for (const TensorId tensor : graph_.inputs(op))
      if (!place(tensor)) roots_.insert(tensor);
    const auto group = of_group_.find(graph_.colocation_group(op));
    if (group == of_group_.end()) return;
    for (const TensorId tensor : graph_.inputs(op)) {
      if (graph_.phase(graph_.producer(tensor)) == Phase::update) continue;
      if (const std::size_t at = place(tensor).value_or(0); at > 0 && copies_[at - 1].holds_others) {
        place_[op] = at;
        return;
      }
      std::map<std::size_t, std::vector<TensorId>> terms;
      find_terms(tensor, terms);
      for (const std::size_t k : group->second) {
        Copy& copy = copies_[k - 1];
        if (terms.contains(k) && graph_.type(op) != kSquareSumType &&
            (copy.updates.empty() || copy.updates.back() != op))
          copy.updates.push_back(op);
      }
    }
  }

  /// Finds the bytes that the copy holds: all of the holder's, or the fraction that is updated.
  void find_held(Copy& copy) {
    Bytes all{0}, copied{0};
    const bool makes_none = copy.updates.empty();
    for (const OpId op : graph_.ops()) {
      if (graph_.phase(op) != Phase::update || graph_.type(op) == kSquareSumType || place_[op] > 0 ||
          graph_.colocation_group(op) != graph_.colocation_group(copy.holder))
        continue;
      if (makes_none) copy.updates.push_back(op);
      const bool updates = std::ranges::find(copy.updates, op) != copy.updates.end();
      for (const TensorId tensor : graph_.inputs(op)) {
        if (graph_.phase(graph_.producer(tensor)) == Phase::update) continue;
        all += graph_.bytes(tensor);
        if (updates) copied += graph_.bytes(tensor);
      }
    }
    const double share = all > Bytes{0} ? static_cast<double>(copied.count) / static_cast<double>(all.count) : 1;
    const auto part = [&](Bytes whole) {
      return Bytes{static_cast<std::int64_t>(share * static_cast<double>(whole.count) + 0.5)};
    };
    copy.parameters = part(graph_.parameter_bytes(copy.holder));
    copy.state = part(graph_.state_bytes(copy.holder));
  }

  void add(const OpSpec& spec, OpId original) {
    builder_.add(spec);
    result_.original.push_back(original);
  }

  /// Adds a sum of terms from several places, on each of these.
  void add_sums(OpId op) {
    const TensorId sum = *graph_.outputs(op).begin();
    std::map<std::size_t, std::vector<TensorId>> terms;
    find_terms(sum, terms);
    std::vector<std::string> own;
    for (const auto& [at, made] : terms) {
      own.emplace_back(graph_.name(made.front()));
      if (made.size() == 1 && !graph_.colocation_group(graph_.producer(made.front())).empty()) continue;
      const std::string name = fmt::format("{}/own{}", graph_.name(op), at > 0 ? fmt::format("-{}", at) : "");
      own.back() = name;
      OpSpec spec = adding(sum, made.size());
      spec.name = name;
      spec.colocate = at > 0 ? tied_copy_name(graph_.colocation_group(op), at) : graph_.colocation_group(op);
      for (const TensorId term : made) spec.inputs.emplace_back(graph_.name(term));
      spec.outputs = {{name, graph_.bytes(sum)}};
      add(spec, graph_.producer(made.front()));
    }
    OpSpec spec = adding(sum, own.size());
    spec.name = graph_.name(op);
    spec.phase = Phase::update;
    spec.colocate = graph_.colocation_group(op);
    spec.inputs = own;
    spec.outputs = {{std::string{graph_.name(sum)}, graph_.bytes(sum)}};
    add(spec, op);
    for (std::size_t k = 1; k <= copies_.size(); ++k) {
      const auto& updates = copies_[k - 1].updates;
      if (std::ranges::none_of(updates, [&](OpId update) {
            const auto inputs = graph_.inputs(update);
            return std::find(inputs.begin(), inputs.end(), sum) != inputs.end();
          }))
        continue;
      OpSpec copy = spec;
      copy.name = tied_copy_name(spec.name, k);
      copy.colocate = tied_copy_name(spec.colocate, k);
      copy.outputs.front().name = tied_copy_name(spec.outputs.front().name, k);
      add(copy, copies_[k - 1].first);
    }
  }
  /// The op that adds this number of terms, as accumulation() does two.
  OpSpec adding(TensorId sum, std::size_t terms) const {
    OpSpec spec = accumulation(graph_, sum);
    const auto more = static_cast<std::int64_t>(terms) - 1;
    spec.flops.value *= static_cast<double>(more);
    spec.bytes_accessed = (more + 2) * graph_.bytes(sum);
    return spec;
  }

  void add_update(OpId op, std::size_t copy) {
    OpSpec spec = spec_of(graph_, op);
    spec.name = tied_copy_name(spec.name, copy);
    spec.colocate = tied_copy_name(spec.colocate, copy);
    for (std::size_t i = 0; i < spec.inputs.size(); ++i)
      if (roots_.contains(graph_.inputs(op)[i])) spec.inputs[i] = tied_copy_name(spec.inputs[i], copy);
    for (OutputSpec& output : spec.outputs) output.name = tied_copy_name(output.name, copy);
    add(spec, copies_[copy - 1].first);
  }

  const Graph& graph_;
  const ParameterUse use_{graph_};
  IdMap<OpId, std::size_t> place_{graph_.op_count(), 0};
  IdMap<OpId, Place> sums_{graph_.op_count()};
  std::vector<Copy> copies_;
  std::map<std::string_view, std::vector<std::size_t>> of_group_;  // numbers of copies, by group
  std::set<TensorId> roots_;                                       // sums over several places that updates read
  GraphBuilder builder_{graph_.name()};
  TiedCopiesGraph result_;
};

}  // namespace

TiedCopies copies_by_place(const Graph& graph, const IdMap<OpId, std::size_t>& place) {
  check_entries("the places", place.size(), graph.op_count(), "ops");
  std::map<std::string_view, std::vector<OpId>> holders;
  for (const OpId op : graph.ops())
    if (holds_parameters(graph, op)) holders[graph.colocation_group(op)].push_back(op);
  const ParameterUse use{graph};
  const auto adds_up = [&](OpId op) {  // makes gradients that are added to those of other ops
    const auto made = graph.outputs(op);
    return std::any_of(made.begin(), made.end(), [&](TensorId tensor) {
      const auto readers = graph.consumers(tensor);
      return std::any_of(readers.begin(), readers.end(), [&](OpId reader) { return use.adds_gradients[reader]; });
    });
  };
  std::map<std::pair<std::string_view, std::size_t>, std::vector<OpId>> readers;  // by group and place
  for (const OpId op : graph.ops()) {
    const auto found = holders.find(graph.colocation_group(op));
    if (found == holders.end() || found->first.empty() || graph.phase(op) == Phase::update || use.adds_gradients[op])
      continue;
    const auto& [group, held_by] = *found;
    const std::size_t home = place[held_by.front()];
    const bool alone = std::ranges::count(held_by, home, [&](OpId holder) { return place[holder]; }) == 1;
    if (alone && place[op] != home) readers[{group, place[op]}].push_back(op);
  }
  TiedCopies tied;
  for (const auto& [where, ops] : readers) {
    const auto is_forward = [&](OpId op) { return graph.phase(op) == Phase::forward; };
    const auto reads = [&](OpId op) { return is_forward(op) ? !holds_parameters(graph, op) : adds_up(op); };
    if (std::ranges::none_of(ops, is_forward) || std::ranges::none_of(ops, reads)) continue;
    tied.copies.emplace_back();
    for (const OpId op : ops) tied.copies.back().emplace_back(graph.name(op));
  }
  return tied;
}

IdMap<OpId, std::size_t> places_of_groups(const Graph& graph, IdMap<OpId, std::size_t> place) {
  check_entries("the places", place.size(), graph.op_count(), "ops");
  std::map<std::string_view, std::size_t> of_group;
  for (const OpId op : graph.ops())
    if (const std::string& group = graph.colocation_group(op); !group.empty())
      place[op] = of_group.try_emplace(group, place[op]).first->second;
  return place;
}

std::string tied_copy_name(std::string_view name, std::size_t copy) { return fmt::format("{}/copy-{}", name, copy); }

TiedCopiesGraph tie_copies(const Graph& graph, const TiedCopies& tied) { return Tying{graph, tied}.run(); }

}  // namespace trainyard
