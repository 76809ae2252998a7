#include "trainyard/io/pytorch/pytorch_ops.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace trainyard {
namespace {

using WordList = std::string_view;  // names without "aten::", separated by blanks

constexpr WordList kViews =
    "view as_strided t transpose permute expand unsqueeze squeeze slice select split split_with_sizes chunk detach "
    "detach_ alias _reshape_alias _unsafe_view narrow unbind resolve_conj resolve_neg expand_as unflatten lift_fresh "
    "numpy_T mT movedim swapaxes real view_as unfold as_strided_ squeeze_ unsqueeze_ t_ transpose_ diagonal "
    "view_as_real view_as_complex _nested_view_from_buffer";
constexpr WordList kQueries =
    "result_type can_cast is_nonzero item size stride sym_size sym_stride sym_numel numel is_pinned dim "
    "storage_offset is_floating_point _has_compatible_shallow_copy_type broadcast_tensors _version requires_grad_ "
    "retain_grad set_data _debug_has_internal_overlap record_stream pin_memory _pin_memory";
constexpr WordList kAllocations =
    "empty empty_like empty_strided new_empty new_empty_strided set_ resize_ resize_as_ _resize_output_ "
    "_empty_affine_quantized empty_quantized";
constexpr WordList kFills = "fill_ zero_ copy_";
constexpr WordList kFilledMakers = "zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full";
constexpr WordList kInitializers =
    "zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full zero_ fill_ scalar_tensor zero clone "
    "contiguous to _to_copy reshape flatten copy lift_fresh_copy expand_copy type_as cpu cuda pin_memory _pin_memory "
    "clone_preserve_strides arange tensor";
constexpr WordList kSmallMakers = "zero_ fill_ arange tensor clone";
constexpr WordList kRandomFills = "normal_ uniform_ random_ bernoulli_";

/// The argument that a c10d op writes (its schema marks none), and whether the op reads it as well.
struct CommunicationRule {
  std::string_view name;
  std::int32_t written;
  bool read_too;
};
constexpr CommunicationRule kCommunicationRules[] = {
    {"allreduce_", 0, true},
    {"allreduce_coalesced_", 0, true},
    {"broadcast_", 0, true},
    {"reduce_", 0, true},
    {"alltoall_base_", 0, false},
    {"alltoall_", 0, false},
    {"_allgather_base_", 0, false},
    {"allgather_", 0, false},
    {"reduce_scatter_", 0, false},
    {"_reduce_scatter_base_", 0, false},
    {"gather_", 0, false},
    {"scatter_", 0, false},
    {"recv_", 0, false},
    {"recv_any_source_", 0, false},
    {"send", -1, false},
    {"barrier", -1, false},
    {"allgather_into_tensor_coalesced_", 0, false},
};

bool in_list(WordList list, std::string_view word) {
  for (std::size_t at = list.find(word); at != WordList::npos; at = list.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

bool is_communication(std::string_view name) {
  for (const std::string_view begin : {"c10d::", "_c10d_functional::", "nccl:", "gloo:", "ucc:", "mpi:"})
    if (name.starts_with(begin)) return true;
  return name == "record_param_comms";
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{} : text.substr(first, last - first + 1);
}

/// Splits the arguments of a schema such as "aten::add_(Tensor(a!) self, Tensor other, *, Scalar alpha=1) ->
/// Tensor(a!)".
std::vector<std::string_view> arguments_of(std::string_view schema) {
  const std::size_t open = schema.find('('), close = schema.rfind(") ->");
  std::vector<std::string_view> list;
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return list;
  const std::string_view inside = schema.substr(open + 1, close - open - 1);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= inside.size(); ++i) {
    const char c = i < inside.size() ? inside[i] : ',';
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c != ',' || (depth != 0 && i < inside.size())) continue;
    const std::string_view argument = trimmed(inside.substr(begin, i - begin));
    if (!argument.empty() && argument != "*") list.push_back(argument);
    begin = i + 1;
  }
  return list;
}

bool of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// For an argument that is written in place, "Tensor(a!) self" or "Tensor(a!)[] out", the text after the type; nothing
/// for others.
std::optional<std::string_view> mutated_name(std::string_view argument) {
  std::size_t at = 0;
  while (at < argument.size() && of_word(argument[at])) ++at;
  if (at == 0) return std::nullopt;
  if (argument.substr(at).starts_with("[]")) at += 2;
  if (at == argument.size() || argument[at] != '(') return std::nullopt;
  const std::size_t close = argument.find(')', at), mark = argument.find('!', at);
  if (mark == std::string_view::npos || mark > close) return std::nullopt;
  if (close == std::string_view::npos) return std::string_view{};
  std::string_view rest = argument.substr(close + 1);
  if (rest.starts_with("[]")) rest.remove_prefix(2);
  return trimmed(rest);
}

/// Whether the name is that of an out= argument, which is written but not read.
bool is_out(std::string_view name) {
  std::size_t end = 0;
  while (end < name.size() && of_word(name[end])) ++end;
  name = name.substr(0, end);
  return name == "out" || name == "grad_input" || name == "values" || name == "indices" ||
         (name.size() == 4 && name.starts_with("out") && name[3] >= '0' && name[3] <= '9');
}

/// A set of storages; call close() before lookups.
class StorageSet {
 public:
  void add(const TraceTensor& tensor) { list_.push_back(tensor.storage); }
  void close() { std::ranges::sort(list_); }
  bool has(const TraceTensor& tensor) const { return std::ranges::binary_search(list_, tensor.storage); }
  bool empty() const { return list_.empty(); }

 private:
  std::vector<std::uint32_t> list_;
};

}  // namespace

TraceCalls::TraceCalls(const PytorchTrace& trace)
    : trace_(&trace),
      flags_(trace.words.size()),
      schemas_(trace.words.size()),
      written_by_communication_(trace.words.size(), -2),
      read_too_(trace.words.size()) {
  for (std::size_t i = 0; i < trace.words.size(); ++i) {
    const std::string_view word = trace.words.words()[i];
    std::uint16_t flags = is_communication(word) ? kCommunication : 0;
    if (word == "detach" || word == "detach_") flags = kView;
    if (word.starts_with("c10d::") || word.starts_with("_c10d_functional::")) {
      const std::string_view name = word.substr(word.find("::") + 2);
      for (const CommunicationRule& rule : kCommunicationRules)
        if (rule.name == name) {
          written_by_communication_[i] = rule.written;
          read_too_[i] = rule.read_too;
        }
    }
    if (word.starts_with("aten::") && word.find_first_of(" (") == std::string_view::npos) {
      const std::string_view name = word.substr(6);
      for (const auto& [list, flag] : {std::pair{kViews, kView},
                                       {kQueries, kQuery},
                                       {kAllocations, kAllocation},
                                       {kFills, kFill},
                                       {kFilledMakers, kFilled},
                                       {kInitializers, kInitialized},
                                       {kSmallMakers, kSmall},
                                       {kRandomFills, kRandom}})
        if (in_list(list, name)) flags = static_cast<std::uint16_t>(flags | flag);
      if (name == "_local_scalar_dense") flags = kToHost;
    }
    flags_[i] = flags;
    if (word.find(") ->") == std::string_view::npos) continue;
    const std::vector<std::string_view> arguments = arguments_of(word);
    for (std::uint32_t a = 0; a < arguments.size(); ++a)
      if (const auto name = mutated_name(arguments[a])) {
        schemas_[i].mutated.push_back(a);
        if (a > 0 && arguments[a].starts_with("Tensor") && is_out(*name)) schemas_[i].only_written.push_back(a);
      }
  }
}

bool TraceCalls::is_mutated(const TraceNode& node, std::uint32_t argument) const {
  return std::ranges::find(schemas_[node.schema].mutated, argument) != schemas_[node.schema].mutated.end();
}

void TraceCalls::reads(const TraceNode& node, std::vector<TraceTensor>& into) const {
  const bool overwrites = flags_[node.name] & (kFill | kRandom);
  const std::int32_t received = read_too_[node.name] ? -2 : written_by_communication_[node.name];
  const auto& out = schemas_[node.schema].only_written;
  for (const TraceTensor& tensor : trace_->arguments(node)) {
    if (overwrites && tensor.argument == 0) continue;
    if (received >= 0 && tensor.argument == static_cast<std::uint32_t>(received)) continue;
    if (std::ranges::find(out, tensor.argument) == out.end()) into.push_back(tensor);
  }
}

void TraceCalls::writes(const TraceNode& node, std::vector<TraceTensor>& into) const {
  const std::int32_t written = written_by_communication_[node.name];
  const std::string& name = trace_->name(node);
  const bool collective = name.starts_with("c10d::") || name.starts_with("_c10d_functional::");
  for (const TraceTensor& tensor : trace_->arguments(node)) {
    const bool is_written = collective    ? written >= 0 && tensor.argument == static_cast<std::uint32_t>(written)
                            : node.triton ? true  // it has no schema: each pointer may be written
                                          : is_mutated(node, tensor.argument);
    if (is_written) into.push_back(tensor);
  }
  for (const TraceTensor& tensor : trace_->results(node)) into.push_back(tensor);
}

bool TraceCalls::works_below(const TraceNode& node) const {
  return std::ranges::any_of(trace_->below(node), [&](std::uint32_t i) { return works(trace_->nodes[i]); });
}

bool TraceCalls::is_composite(const TraceNode& node) const {
  StorageSet made, read, mutated;
  std::vector<TraceTensor> tensors;
  bool any = false, any_but_fills = false;
  for (const std::uint32_t i : trace_->below(node)) {
    const TraceNode& child = trace_->nodes[i];
    if (!works(child)) continue;
    const bool fills = flags_[child.name] & (kFill | kFilled);
    any = true;
    any_but_fills = any_but_fills || !fills;
    if (!fills || is_initializer(node)) writes(child, tensors);
  }
  if (!any) return false;
  for (const TraceTensor& tensor : tensors) made.add(tensor);
  made.close();
  for (const TraceTensor& tensor : trace_->arguments(node)) {
    read.add(tensor);
    if (is_mutated(node, tensor.argument)) mutated.add(tensor);
  }
  read.close();
  mutated.close();
  tensors.clear();
  writes(node, tensors);
  bool results = false, all = true;
  for (const TraceTensor& tensor : tensors) {
    if (tensor.empty()) continue;
    results = true;
    all = all && (made.has(tensor) || (read.has(tensor) && !mutated.has(tensor)));
  }
  return results ? all : any_but_fills;
}

bool TraceCalls::makes_views_only(const TraceNode& node) const {
  if (trace_->results(node).empty() || !schemas_[node.schema].mutated.empty()) return false;
  StorageSet read;
  for (const TraceTensor& tensor : trace_->arguments(node)) read.add(tensor);
  read.close();
  for (const TraceTensor& tensor : trace_->results(node))
    if (!read.has(tensor)) return false;
  return !works_below(node);
}

void TraceOps::promote(const PytorchTrace& trace, std::uint32_t node) {
  std::erase_if(kept, [&](std::uint32_t each) {
    const std::uint32_t at = trace.nodes[each].first_below;
    return at >= trace.nodes[node].first_below && at < trace.nodes[node].end_below;
  });
  kept.insert(std::ranges::upper_bound(kept, node), node);
  owner[node] = node;
  for (const std::uint32_t below : trace.below(trace.nodes[node])) owner[below] = node;
}

namespace {

class OpChooser {
 public:
  explicit OpChooser(const TraceCalls& calls) : calls_(calls), trace_(calls.trace()) {}

  TraceOps choose() {
    ops_.owner.assign(trace_.nodes.size(), TraceOps::kNone);
    for (std::size_t at = 0; at < trace_.preorder.size();) {
      const std::uint32_t i = trace_.preorder[at];
      const Choice choice = choice_of(trace_.nodes[i]);
      if (choice == Choice::keep) take(i);
      at = choice == Choice::down ? at + 1 : trace_.nodes[i].end_below;
    }
    std::ranges::sort(ops_.kept);
    set_phases();
    return std::move(ops_);
  }

 private:
  enum class Choice { keep, skip, down };

  void take(std::uint32_t node) {
    ops_.kept.push_back(node);
    ops_.owner[node] = node;
    for (const std::uint32_t below : trace_.below(trace_.nodes[node])) ops_.owner[below] = node;
  }
  template <class Test>
  bool any_below(const TraceNode& node, const Test& test) const {
    return std::ranges::any_of(trace_.below(node), [&](std::uint32_t i) { return test(trace_.nodes[i]); });
  }

  Choice choice_of(const TraceNode& node) const {
    const auto has_tensors = [&](const TraceNode& each) {
      return calls_.communicates(each) && !trace_.arguments(each).empty();
    };
    if (calls_.communicates(node))
      return has_tensors(node) || any_below(node, has_tensors) ? Choice::keep : Choice::skip;
    return leaf_choice(node);
  }

  Choice leaf_choice(const TraceNode& node) const {
    if (node.triton) return Choice::keep;
    if (!calls_.is_op(node)) return Choice::down;
    if (calls_.reads_on_host(node))
      return std::ranges::any_of(trace_.arguments(node),
                                 [](const TraceTensor& tensor) { return tensor.place == TraceTensor::Place::gpu; })
                 ? Choice::keep
                 : Choice::skip;
    if (calls_.is_initializer(node) && !calls_.works_below(node))
      return calls_.is_small_maker(node) ? Choice::keep : Choice::skip;
    if (calls_.is_initializer(node) || calls_.is_view(node) || calls_.makes_views_only(node) ||
        calls_.is_composite(node))
      return Choice::down;
    return calls_.allocates(node) ? Choice::skip : Choice::keep;
  }

  /// Sets phases by the nearest enclosing call that determines one: an optimizer's step or a backward function.
  void set_phases() {
    const auto& nodes = trace_.nodes;
    enum class Told : std::uint8_t { nothing, backward, update };
    std::vector<Told> told(nodes.size(), Told::nothing);
    std::int32_t main = 0;
    std::int64_t last_backward = 0;
    bool has_step = false;
    std::vector<std::int32_t> backward_threads;
    for (const TraceNode& node : nodes) {
      if (node.thread != 0 && (main == 0 || node.thread < main)) main = node.thread;
      has_step = has_step || trace_.name(node).starts_with("Optimizer.step");
      if (node.scope != 1) continue;
      last_backward = std::max(last_backward, node.last);
      if (std::ranges::find(backward_threads, node.thread) == backward_threads.end())
        backward_threads.push_back(node.thread);
    }
    ops_.phase.assign(nodes.size(), Phase::forward);
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      const TraceNode& node = nodes[i];
      const std::string_view name = trace_.name(node);
      if (name.starts_with("Optimizer.step") || name.starts_with("## optimizer"))
        told[i] = Told::update;
      else if (node.scope == 1 || name.starts_with("autograd::engine::evaluate_function") || name == "## backward ##" ||
               name == "## zero_grad ##" || name.starts_with("Optimizer.zero_grad"))
        told[i] = Told::backward;
      else if (node.parent != i)
        told[i] = told[node.parent];
      const bool by_thread =
          node.thread != main && std::ranges::find(backward_threads, node.thread) != backward_threads.end();
      if (told[i] == Told::update)
        ops_.phase[i] = Phase::update;
      else if (told[i] == Told::backward || by_thread)
        ops_.phase[i] = Phase::backward;
      else if (!has_step && last_backward > 0 && node.id > last_backward && writes_in_place(node))
        ops_.phase[i] = Phase::update;
    }
  }
  bool writes_in_place(const TraceNode& node) const {
    return std::ranges::any_of(trace_.arguments(node),
                               [&](const TraceTensor& tensor) { return calls_.is_mutated(node, tensor.argument); });
  }

  const TraceCalls& calls_;
  const PytorchTrace& trace_;
  TraceOps ops_;
};

/// Whether the name is a step mark: "ProfilerStep#12", possibly with blanks around the '#'.
bool is_step_mark(std::string_view name) {
  if (!name.starts_with("ProfilerStep")) return false;
  name = name.substr(12);
  name.remove_prefix(std::min(name.size(), name.find_first_not_of(' ')));
  if (!name.starts_with('#')) return false;
  name = trimmed(name.substr(1));
  return !name.empty() && name.front() >= '0' && name.front() <= '9';
}

/// The common name of a collective; empty for other names.
std::string_view kind_of_collective(std::string_view name) {
  static const std::unordered_map<std::string_view, std::string_view> kinds{
      {"allreduce", "all_reduce"},
      {"all_reduce", "all_reduce"},
      {"allreduce_", "all_reduce"},
      {"allreduce_coalesced_", "all_reduce"},
      {"allreduce_coalesced", "all_reduce"},
      {"broadcast_", "broadcast"},
      {"broadcast", "broadcast"},
      {"alltoall_base_", "all_to_all"},
      {"alltoall_", "all_to_all"},
      {"all_to_all", "all_to_all"},
      {"all_to_allv", "all_to_all"},
      {"_allgather_base_", "all_gather"},
      {"allgather_", "all_gather"},
      {"all_gather", "all_gather"},
      {"_all_gather_base", "all_gather"},
      {"_allgather_base", "all_gather"},
      {"allgather_into_tensor_coalesced_", "all_gather"},
      {"_reduce_scatter_base_", "reduce_scatter"},
      {"_reduce_scatter_base", "reduce_scatter"},
      {"reduce_scatter_", "reduce_scatter"},
      {"reduce_scatter", "reduce_scatter"},
      {"barrier", "barrier"},
      {"send", "send"},
      {"recv_", "recv"},
      {"recv", "recv"},
      {"recv_any_source_", "recv"},
      {"reduce_", "reduce"},
      {"reduce", "reduce"},
      {"gather_", "gather"},
      {"gather", "gather"},
      {"scatter_", "scatter"},
      {"scatter", "scatter"},
  };
  const std::size_t colons = name.rfind("::");
  if (colons != std::string_view::npos) name.remove_prefix(colons + 2);
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  const auto at = kinds.find(name);
  return at == kinds.end() ? std::string_view{} : at->second;
}

}  // namespace

TraceOps choose_ops(const TraceCalls& calls) { return OpChooser{calls}.choose(); }

std::vector<TraceStep> trace_steps(const PytorchTrace& trace, const TraceOps& ops) {
  const std::int64_t top = trace.nodes.back().id;
  std::vector<TraceStep> steps;
  for (const TraceNode& node : trace.nodes)
    if (is_step_mark(trace.name(node))) {
      if (!steps.empty()) steps.back().last = node.id - 1;
      steps.push_back({trace.name(node), node.id, top});
    }
  if (steps.empty()) {
    std::int64_t begin = 0;
    for (const TraceNode& node : trace.nodes)
      if (trace.name(node).starts_with("Optimizer.step")) {
        steps.push_back({"step " + std::to_string(steps.size()), begin, node.last});
        begin = node.last + 1;
      }
    if (steps.size() > 1)
      steps.back().last = top;
    else
      steps = {{"all", 0, top}};
  }
  std::erase_if(steps, [&](const TraceStep& step) {
    return std::ranges::none_of(
        ops.kept, [&](std::uint32_t i) { return trace.nodes[i].id >= step.first && trace.nodes[i].id <= step.last; });
  });
  return steps;
}

std::vector<TraceMessage> trace_messages(const TraceCalls& calls, const TraceOps& ops) {
  const PytorchTrace& trace = calls.trace();
  std::vector<TraceMessage> messages;
  for (const std::uint32_t i : ops.kept) {
    const TraceNode& node = trace.nodes[i];
    if (!calls.communicates(node)) continue;
    TraceMessage message{.node = i, .kind = "", .group = "", .group_size = 0, .bytes = 0};
    std::vector<TraceTensor> read;
    const auto look_at = [&](const TraceNode& each) {
      const TraceCollective* said = each.collective ? &trace.collectives[each.collective - 1] : nullptr;
      if (message.kind.empty())
        message.kind = kind_of_collective(said && !said->name.empty() ? said->name : trace.name(each));
      if (said && message.group.empty()) {
        message.group = said->group;
        message.group_size = said->group_size;
      }
      if (read.empty()) calls.reads(each, read);
    };
    look_at(node);
    for (const std::uint32_t below : trace.below(node)) look_at(trace.nodes[below]);
    for (const TraceTensor& tensor : read)
      if (tensor.argument == read.front().argument) message.bytes += tensor.end - tensor.begin;
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace trainyard
