#include "trainyard/rewrite/recompute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_copy.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kNoSegment = static_cast<std::size_t>(-1), kNever = kNoSegment;
constexpr std::size_t kTogether = 64;  // segments per pass, one bit each

class Recomputation {
 public:
  Recomputation(const Graph& graph, std::span<const std::vector<OpId>> segments,
                std::span<const std::vector<OpId>> also)
      : graph_(graph),
        begin_(segments.size(), kNever),
        triggers_(segments.size()),
        readers_(segments.size()),
        first_readers_(segments.size()) {
    for (std::size_t s = 0; s < segments.size(); ++s)
      for (const OpId op : segments[s]) add(op, s);
    for (std::size_t s = 0; s < also.size(); ++s)
      for (const OpId op : also[s]) {
        add(op, s);
        also_[op] = segment_[op] == s;
      }
    find_gradients();
    find_gathered();
    find_copies();
    if (!gathered_.empty() && !triggers_come_first()) {
      gathered_.clear();
      find_copies();
    }
    find_waits();
  }

  RepeatedOps repeated() && { return {std::move(again_), std::move(triggers_)}; }

  RecomputingGraph run() {
    const std::map<OpId, std::vector<std::string>> ends = ends_before_readers();
    check_waits(ends);
    for (const OpId op : graph_.ops()) {
      OpView& view = copy_.start(op);
      if (graph_.phase(op) == Phase::backward)
        for (std::size_t i = 0; i < view.inputs.size(); ++i)
          if (is_recomputed(graph_.inputs(op)[i])) copy_.append(view.inputs[i], kAgain);
      if (const auto at = until_.find(op); at != until_.end()) {
        std::set<OpId> passed, waits;
        add_waits(op, at->second, passed, waits);
        view.after.clear();
        for (const OpId earlier : waits) view.after.emplace_back(graph_.name(earlier));
      }
      if (const auto at = ends.find(op); at != ends.end())
        for (const std::string& end : at->second) view.after.emplace_back(end);
      builder_.add_view(view);
      result_.original.push_back(op);
    }
    for (const OpId op : graph_.ops())
      if (again_[op]) add_copy(op);
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  struct Gathered {
    TensorId tensor;
    std::vector<OpId> waiting;  // ops of the gather that wait for others, on any replica
  };

  void add(OpId op, std::size_t segment) {
    check_id("unknown-op", "an op of a segment", op.index(), graph_.op_count(), "ops");
    if (segment_[op] != kNoSegment)
      refuse("recompute", fmt::format("op '{}' is listed twice to run again", graph_.name(op)),
             "name each forward op at most once");
    if (graph_.phase(op) != Phase::forward)
      refuse("recompute", fmt::format("op '{}' is not in the forward pass", graph_.name(op)),
             "name ops of the forward pass");
    if (graph_.type(op) != kVariableType) segment_[op] = segment;
  }

  template <class Text>
  static std::string copy_of(const Text& name) {
    return std::string{name} + kAgain;
  }

  /// The weights gathered in the backward pass that copies read in place of the tensor. Nothing: copies read the tensor
  /// as it is, or from a copy.
  std::optional<TensorId> gathered(TensorId tensor) const {
    const auto at = gathered_.find(tensor);
    return at == gathered_.end() ? std::nullopt : std::optional{at->second.tensor};
  }

  /// Finds, for weights gathered in the forward pass, those gathered in the backward pass, and the level at which each
  /// segment's backward pass begins.
  void find_gathered() {
    const auto ops = graph_.ops();
    if (std::none_of(ops.begin(), ops.end(), [&](OpId op) { return graph_.type(op) == kVariableType; })) return;
    const ParameterUse use{graph_};
    std::map<std::pair<std::string_view, Bytes>, TensorId> whole;  // by group, of the backward pass
    level_ = IdMap<OpId, std::size_t>(graph_.op_count(), 0);
    for (const OpId op : graph_.topological_order()) {
      for (const OpId earlier : all_before(op)) level_[op] = std::max(level_[op], level_[earlier] + 1);
      if (!use.hands_on_weights[op] || graph_.phase(op) != Phase::backward) continue;
      for (const TensorId tensor : graph_.outputs(op))
        if (is_read(tensor, use)) whole[{graph_.colocation_group(op), graph_.bytes(tensor)}] = tensor;
    }
    for (const OpId op : ops) {
      if (!use.hands_on_weights[op] || graph_.phase(op) != Phase::forward) continue;
      for (const TensorId tensor : graph_.outputs(op))
        if (const auto at = whole.find({graph_.colocation_group(op), graph_.bytes(tensor)});
            at != whole.end() && is_read(tensor, use))
          gathered_.emplace(tensor, Gathered{at->second, that_wait(graph_.producer(at->second), use)});
    }
    for (const auto& [forward, again] : gathered_)
      for (const OpId waiting : again.waiting)
        if (graph_.colocation_group(waiting) == graph_.colocation_group(graph_.producer(again.tensor)))
          own_gather_.emplace(again.tensor, waiting);
    for (const OpId op : ops) {
      if (segment_[op] == kNoSegment || also_[op]) continue;
      for (const TensorId tensor : graph_.outputs(op))
        for (const OpId reader : graph_.consumers(tensor))
          if (graph_.phase(reader) == Phase::backward)
            begin_[segment_[op]] = std::min(begin_[segment_[op]], level_[reader]);
    }
  }
  std::vector<OpId> all_before(OpId op) const {
    std::vector<OpId> all(graph_.after(op).begin(), graph_.after(op).end());
    for (const TensorId tensor : graph_.inputs(op)) all.push_back(graph_.producer(tensor));
    return all;
  }
  /// The ops of the gather that wait for other ops.
  std::vector<OpId> that_wait(OpId done, const ParameterUse& use) const {
    std::vector<OpId> waiting, open{done};
    std::set<OpId> seen{done};
    while (!open.empty()) {
      const OpId op = open.back();
      open.pop_back();
      bool waits = false;
      for (const OpId earlier : all_before(op)) {
        waits = waits || !use.hands_on_weights[earlier];
        if (use.hands_on_weights[earlier] && graph_.phase(earlier) == Phase::backward && seen.insert(earlier).second)
          open.push_back(earlier);
      }
      if (waits) waiting.push_back(op);
    }
    return waiting;
  }
  /// Whether an op reads the weights without passing them on.
  bool is_read(TensorId tensor, const ParameterUse& use) const {
    return std::ranges::any_of(graph_.consumers(tensor), [&](OpId reader) { return !use.hands_on_weights[reader]; });
  }
  bool triggers_come_first() const {
    for (std::size_t s = 0; s < triggers_.size(); ++s)
      for (const OpId trigger : triggers_[s])
        if (level_[trigger] >= begin_[s]) return false;
    return true;
  }
  /// Finds the level from which on the gathers of weights that a segment's copies read wait for no op. It is at most
  /// the level at which the segment's backward pass begins. As all of these weights are needed at once, it is the level
  /// up to which the first of the gathers waits, but at least the level at which the segment before begins. If all
  /// triggers have lower levels than the begin of their segment, no op then waits for itself, as levels ascend along
  /// any path.
  void find_waits() {
    std::vector<std::size_t> until = begin_;  // by segment
    const auto for_gathers = [&](const auto& use) {
      for (const OpId op : graph_.ops()) {
        if (!again_[op]) continue;
        for (const TensorId tensor : graph_.inputs(op))
          if (const auto at = gathered_.find(tensor); at != gathered_.end())
            for (const OpId waiting : at->second.waiting) use(segment_[op], waiting);
      }
    };
    for_gathers([&](std::size_t segment, OpId waiting) {
      std::size_t last = 0;
      for (const OpId earlier : graph_.after(waiting)) last = std::max(last, level_[earlier]);
      until[segment] = std::min(until[segment], last + 1);
    });
    const std::set<std::size_t> begins(begin_.begin(), begin_.end());
    for (std::size_t s = 0; s < begin_.size(); ++s)
      if (const auto at = begins.find(begin_[s]); at != begins.begin()) until[s] = std::max(until[s], *std::prev(at));
    for_gathers([&](std::size_t segment, OpId waiting) {
      std::size_t& own = until_.try_emplace(waiting, kNever).first->second;
      own = std::min(own, until[segment]);
    });
  }
  /// Collects the ops that a gather waits for: those of the forward pass, and those of levels below `until`. A reader
  /// of a higher level is replaced by what the gather of its own weights waits for.
  void add_waits(OpId gather, std::size_t until, std::set<OpId>& passed, std::set<OpId>& waits) const {
    if (!passed.insert(gather).second) return;
    for (const OpId earlier : graph_.after(gather)) {
      if (graph_.phase(earlier) == Phase::forward || level_[earlier] < until) {
        waits.insert(earlier);
        continue;
      }
      for (const TensorId tensor : graph_.inputs(earlier))
        if (const auto own = own_gather_.find(tensor); own != own_gather_.end())
          add_waits(own->second, until, passed, waits);
    }
  }

  void find_copies() {
    again_ = IdMap<OpId, bool>(graph_.op_count(), false);
    for (auto* lists : {&readers_, &triggers_, &first_readers_})
      for (auto& each : *lists) each.clear();
    find_copied();
    for (std::size_t s = 0; s < triggers_.size(); s += kTogether) find_triggers(s);
  }

  /// Whether a copy in another segment reads the tensor as it is, so that it stays for the backward pass.
  bool is_checkpoint(TensorId tensor) const {
    const std::size_t own = segment_[graph_.producer(tensor)];
    for (const OpId reader : graph_.consumers(tensor))
      if (again_[reader] && segment_[reader] != own && !gathered(tensor)) return true;
    return false;
  }

  /// Whether backward ops read the tensor from a copy.
  bool is_recomputed(TensorId tensor) const {
    const OpId maker = graph_.producer(tensor);
    return again_[maker] && !also_[maker] && !is_checkpoint(tensor);
  }

  /// Marks `also` and, in reverse topological order, the ops read by the backward pass or by a copy of their own
  /// segment.
  void find_copied() {
    const auto& order = graph_.topological_order();
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      const OpId op = *at;
      if (segment_[op] == kNoSegment) continue;
      again_[op] = also_[op];
      for (const TensorId tensor : graph_.outputs(op)) {
        const bool stays = is_checkpoint(tensor);
        for (const OpId reader : graph_.consumers(tensor)) {
          if (graph_.phase(reader) == Phase::backward) {
            if (stays || also_[op]) continue;
            again_[op] = true;
            readers_[segment_[op]].push_back(reader);
          } else if (again_[reader] && segment_[reader] == segment_[op] && !gathered(tensor)) {
            again_[op] = true;
          }
        }
      }
      if (graph_.collective(op) && !also_[op])
        again_[op] = std::ranges::any_of(
            graph_.before(op), [&](OpId member) { return again_[member] && segment_[member] == segment_[op]; });
    }
  }

  /// Marks the backward ops, except those that pass on results of the forward pass, such as keys and values of replicas
  /// that share a sequence. These wait for gradients of their own, behind their own copies of the segment.
  void find_gradients() {
    for (const OpId op : graph_.topological_order()) {
      if (graph_.phase(op) != Phase::backward) continue;
      const auto inputs = graph_.inputs(op);
      const auto after = graph_.after(op);  // the ranks' ops, if the op is a collective
      const bool hands_on = graph_.type(op) == kRelayType || graph_.collective(op);
      const auto is_of_gradients = [&](OpId earlier) { return bool{of_gradients_[earlier]}; };
      of_gradients_[op] =
          !hands_on || (inputs.empty() ? std::ranges::any_of(after, is_of_gradients)
                                       : std::any_of(inputs.begin(), inputs.end(), [&](TensorId tensor) {
                                           return is_of_gradients(graph_.producer(tensor));
                                         }));
    }
  }

  /// Finds the triggers of kTogether segments from the first on: backward ops that hand gradients to those of a
  /// segment, and that depend on nothing of it.
  void find_triggers(std::size_t first) {
    IdMap<OpId, std::uint64_t> behind(graph_.op_count(), 0);  // a bit per segment: the op depends on a reader of it
    const std::size_t end = std::min(first + kTogether, readers_.size());
    for (std::size_t s = first; s < end; ++s)
      for (const OpId reader : readers_[s]) behind[reader] |= std::uint64_t{1} << (s - first);
    for (const OpId op : graph_.topological_order()) {
      for (const TensorId tensor : graph_.inputs(op)) behind[op] |= behind[graph_.producer(tensor)];
      for (const OpId earlier : graph_.after(op)) behind[op] |= behind[earlier];
    }
    for (std::size_t s = first; s < end; ++s)
      if (!readers_[s].empty())  // the segment has copies
        find_triggers(s, [&](OpId op) { return (behind[op] >> (s - first) & 1) != 0; });
  }
  template <class IsBehind>
  void find_triggers(std::size_t segment, const IsBehind& is_behind) {
    std::vector<OpId>& triggers = triggers_[segment];
    const auto offer = [&](OpId earlier) {
      if (of_gradients_[earlier] && !is_behind(earlier) && !graph_.collective(earlier)) triggers.push_back(earlier);
    };
    for (const OpId reader : readers_[segment]) {
      for (const TensorId tensor : graph_.inputs(reader)) offer(graph_.producer(tensor));
      for (const OpId earlier : graph_.after(reader))
        if (!is_turn(graph_, earlier)) offer(earlier);
      if (std::ranges::none_of(all_before(reader), is_behind)) first_readers_[segment].push_back(reader);
    }
    if (triggers.empty())
      for (const OpId op : graph_.ops())
        if (segment_[op] == segment && is_last(op) && !graph_.collective(op)) triggers.push_back(op);
    std::ranges::sort(triggers);
    triggers.erase(std::unique(triggers.begin(), triggers.end()), triggers.end());
  }

  bool is_last(OpId op) const {
    for (const TensorId tensor : graph_.outputs(op))
      for (const OpId reader : graph_.consumers(tensor))
        if (segment_[reader] == segment_[op]) return false;
    return true;
  }

  /// Whether the op's copy is the first of its segment on its path, and so waits for the triggers.
  bool is_first(OpId op) const {
    const auto inputs = graph_.inputs(op);
    return !graph_.collective(op) && std::none_of(inputs.begin(), inputs.end(), [&](TensorId tensor) {
      const OpId maker = graph_.producer(tensor);
      return again_[maker] && segment_[maker] == segment_[op] && !gathered(tensor);
    });
  }
  /// By the first backward ops that read a segment: the copies of `also` that end it.
  std::map<OpId, std::vector<std::string>> ends_before_readers() const {
    std::map<OpId, std::vector<std::string>> ends;
    for (const OpId op : graph_.ops()) {
      if (!also_[op]) continue;
      const std::size_t own = segment_[op];
      const auto is_own = [&](OpId later) { return again_[later] && segment_[later] == own; };
      bool last = std::ranges::none_of(graph_.before(op), is_own);
      for (const TensorId tensor : graph_.outputs(op))
        last = last && std::ranges::none_of(graph_.consumers(tensor), is_own);
      if (!last) continue;
      for (const OpId reader : first_readers_[own]) ends[reader].push_back(copy_of(graph_.name(op)));
    }
    return ends;
  }
  void check_waits(const std::map<OpId, std::vector<std::string>>& ends) const {
    std::size_t waits = 0;
    for (const auto& [reader, copies] : ends) waits += copies.size();
    for (const OpId op : graph_.ops())
      if (again_[op] && is_first(op)) waits += triggers_[segment_[op]].size();
    if (waits > limits::kMostRewrittenReads)
      refuse("too-large", fmt::format("the ops that run again would wait for {} ops", waits),
             "put fewer parallel branches into one segment");
  }

  void add_copy(OpId op) {
    OpSpec spec = spec_of(graph_, op);
    spec.name = copy_of(spec.name);
    spec.phase = Phase::backward;
    spec.parameter_bytes = spec.state_bytes = Bytes{0};
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      const TensorId tensor = graph_.inputs(op)[i];
      const OpId maker = graph_.producer(tensor);
      if (const auto again = gathered(tensor)) {
        spec.inputs[i] = std::string{graph_.name(*again)};
        continue;
      }
      if (!again_[maker] || segment_[maker] != segment_[op]) continue;
      spec.inputs[i] = copy_of(spec.inputs[i]);
    }
    std::vector<std::string> after;
    for (const OpId earlier : graph_.after(op))
      after.push_back(again_[earlier] && segment_[earlier] == segment_[op] ? copy_of(graph_.name(earlier))
                                                                           : std::string{graph_.name(earlier)});
    if (is_first(op))
      for (const OpId trigger : triggers_[segment_[op]]) after.emplace_back(graph_.name(trigger));
    spec.after = std::move(after);
    for (OutputSpec& output : spec.outputs) {
      output.name = copy_of(output.name);
      output.kept = false;
    }
    builder_.add(spec);
    result_.original.push_back(op);
  }

  const Graph& graph_;
  IdMap<OpId, std::size_t> segment_{graph_.op_count(), kNoSegment};
  IdMap<OpId, bool> again_{graph_.op_count(), false};  // has a copy
  IdMap<OpId, bool> also_{graph_.op_count(), false};   // has a copy that backward ops do not read
  IdMap<OpId, bool> of_gradients_{graph_.op_count(), false};
  std::map<TensorId, Gathered> gathered_;         // by weights as the forward pass gathers them
  std::map<TensorId, OpId> own_gather_;           // by weights of the backward pass: the waiting op on their replica
  std::map<OpId, std::size_t> until_;             // by waiting op: the level from which on it waits for none
  IdMap<OpId, std::size_t> level_;                // number of ops on the longest path to the op
  std::vector<std::size_t> begin_;                // by segment: the lowest level of backward ops that read its results
  std::vector<std::vector<OpId>> triggers_;       // by segment
  std::vector<std::vector<OpId>> readers_;        // by segment: backward ops that read its results
  std::vector<std::vector<OpId>> first_readers_;  // those that depend on no other of them
  RecomputingGraph result_;
  GraphBuilder builder_{graph_.name()};
  OpCopy copy_{graph_};
};

}  // namespace

RecomputingGraph recompute(const Graph& graph, std::span<const std::vector<OpId>> segments,
                           std::span<const std::vector<OpId>> also) {
  const auto is_empty = [](const std::vector<OpId>& segment) { return segment.empty(); };
  if (std::ranges::all_of(segments, is_empty) && std::ranges::all_of(also, is_empty))
    return {graph, IdMap<OpId, OpId>{{graph.ops().begin(), graph.ops().end()}}};
  return Recomputation{graph, segments, also}.run();
}

RepeatedOps repeated_ops(const Graph& graph, std::span<const std::vector<OpId>> segments) {
  return Recomputation{graph, segments, {}}.repeated();
}

void leave_results(const Graph& graph, std::vector<OpId>& segment, const std::function<bool(OpId)>& own) {
  std::erase_if(segment, [&](OpId op) {
    const auto made = graph.outputs(op);
    return std::any_of(made.begin(), made.end(), [&](TensorId tensor) {
      const auto readers = graph.consumers(tensor);
      return std::any_of(readers.begin(), readers.end(),
                         [&](OpId reader) { return graph.phase(reader) == Phase::backward && !own(reader); });
    });
  });
}

IdMap<OpId, bool> attention_scores(const Graph& graph) {
  IdMap<OpId, bool> scores(graph.op_count(), false);
  std::vector<OpId> open;
  const auto add = [&](OpId op) {
    if (graph.phase(op) != Phase::forward || scores[op]) return;
    scores[op] = true;
    open.push_back(op);
  };
  for (const OpId softmax : graph.ops()) {
    const std::string_view signature = graph.signature(softmax);
    const std::size_t end = signature.find(']');
    if (graph.type(softmax) != "Softmax" || end == std::string_view::npos) continue;
    if (std::ranges::count(signature.substr(0, end), ',') != 3 || graph.outputs(softmax).empty()) continue;
    const Bytes size = graph.bytes(*graph.outputs(softmax).begin());
    const auto is_score = [&](TensorId tensor) { return graph.bytes(tensor) == size; };
    add(softmax);
    while (!open.empty()) {
      const OpId op = open.back();
      open.pop_back();
      for (const TensorId tensor : graph.outputs(op))
        for (const OpId reader : graph.consumers(tensor))
          if (graph.type(reader) != "MatMul" &&
              std::any_of(graph.outputs(reader).begin(), graph.outputs(reader).end(), is_score))
            add(reader);
      if (graph.type(op) == "MatMul") continue;
      for (const TensorId tensor : graph.inputs(op))
        if (is_score(tensor)) add(graph.producer(tensor));
    }
  }
  return scores;
}

}  // namespace trainyard
