#include "trainyard/training/draft_graph.hpp"

namespace trainyard {

DraftGraph::Index DraftGraph::add_op(OpSpec op, const std::vector<Index>& inputs) {
  op.name = unique(op_names_, op.name);
  op.inputs.clear();
  op.outputs.clear();
  ops_.push_back({.spec = std::move(op), .inputs = {}, .outputs = {}});
  for (const Index input : inputs)
    if (input != kNone) ops_.back().inputs.push_back(input);
  groups_.add();
  return ops_.size() - 1;
}

DraftGraph::Index DraftGraph::add_output(Index op, const std::string& name, Bytes bytes, bool statistics) {
  const Index tensor = tensors_.size();
  tensors_.push_back({unique(tensor_names_, name), bytes, tensor, statistics});
  ops_[op].outputs.push_back(tensor);
  return tensor;
}

DraftGraph::Index DraftGraph::add_slice(Index of, const std::string& name, Bytes bytes) {
  const Index whole = tensors_[of].whole;
  tensors_.push_back({unique(tensor_names_, name), bytes, whole});
  return tensors_.size() - 1;
}

void DraftGraph::join_thing(Index op, std::size_t thing, const std::string& name) {
  const auto [at, added] = thing_at_.try_emplace(thing, things_.size());
  if (added) things_.push_back({thing, name, op});
  join_ops(op, things_[at->second].op);
}

std::string DraftGraph::unique(std::unordered_map<std::string, int>& taken, const std::string& name) {
  if (taken.emplace(name, 1).second) return name;
  while (true) {
    std::string candidate = name + '#' + std::to_string(++taken[name]);
    if (taken.emplace(candidate, 1).second) return candidate;
  }
}

void DraftGraph::settle_slices() {
  std::vector<bool> read(tensors_.size(), false);
  for (const Op& op : ops_)
    for (const Index input : op.inputs) read[input] = true;
  std::vector<std::vector<Index>> slices(tensors_.size());
  std::vector<Bytes> sliced(tensors_.size());
  for (Index t = 0; t < tensors_.size(); ++t) {
    const Index whole = tensors_[t].whole;
    if (whole == t || !read[t]) continue;
    slices[whole].push_back(t);
    sliced[whole] += tensors_[t].bytes;
  }
  const auto apart = [&](Index whole) {
    return !slices[whole].empty() && !read[whole] && sliced[whole] == tensors_[whole].bytes;
  };
  for (Op& op : ops_) {
    for (Index& input : op.inputs)
      if (const Index whole = tensors_[input].whole; !apart(whole)) input = whole;
    std::vector<Index> outputs;
    for (const Index output : op.outputs) {
      if (apart(output))
        outputs.insert(outputs.end(), slices[output].begin(), slices[output].end());
      else
        outputs.push_back(output);
    }
    op.outputs = std::move(outputs);
  }
}

void DraftGraph::name_groups() {
  constexpr std::size_t kNoThing = kNone;
  std::vector<std::size_t> lowest(ops_.size(), kNoThing);  // by group leader: index into things_
  for (std::size_t i = 0; i < things_.size(); ++i) {
    std::size_t& best = lowest[groups_.find(things_[i].op)];
    if (best == kNoThing || things_[i].number < things_[best].number) best = i;
  }
  std::vector<bool> shared(ops_.size(), false);
  for (Index op = 0; op < ops_.size(); ++op)
    if (groups_.find(op) != op) shared[groups_.find(op)] = true;
  std::unordered_map<std::string, int> taken;
  for (const Thing& thing : things_) taken.emplace(thing.name, 1);
  for (Index op = 0; op < ops_.size(); ++op) {
    const Index first = groups_.find(op);  // never above op, so its name is already set
    if (lowest[first] != kNoThing)
      ops_[op].spec.colocate = things_[lowest[first]].name;
    else if (shared[first])
      ops_[op].spec.colocate = op == first ? unique(taken, ops_[op].spec.name) : ops_[first].spec.colocate;
  }
}

DraftGraph::Built DraftGraph::build(const std::string& name) && {
  settle_slices();
  name_groups();
  GraphBuilder builder{name};
  std::vector<TensorId> declared(tensors_.size(), TensorId::none());
  std::size_t count = 0;
  for (Op& op : ops_) {
    for (const Index input : op.inputs) op.spec.inputs.push_back(tensors_[input].name);
    for (const Index output : op.outputs) {
      declared[output] = TensorId{count++};
      op.spec.outputs.push_back(
          {.name = tensors_[output].name, .bytes = tensors_[output].bytes, .statistics = tensors_[output].statistics});
    }
    builder.add(std::move(op.spec));
  }
  return {std::move(builder).build(), std::move(declared)};
}

}  // namespace trainyard
