#include "trainyard/io/formats/schedule_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>
#include <variant>
#include <vector>

#include "trainyard/core/counted.hpp"
#include "trainyard/io/formats/problem_names.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_object.hpp"
#include "trainyard/io/json/json_write.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/split_op.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kScheduleFormat = "trainyard-schedule/1";
const std::vector<std::string> kPolicies{"fifo", "priority", "strict"};

/// Calls `take(op, member)` for each member of {op: ...}.
template <class Take>
void for_each_op(const JsonValue& object, ProblemNames& names, const Take& take) {
  for (const JsonValue member : object.children())
    if (const auto op = names.op(member.key(), member.key_offset())) take(*op, member);
}

/// Reports the ops that `given` leaves out, as one finding.
void find_missing(const Problem& problem, const IdMap<OpId, std::uint8_t>& given, const JsonValue& object,
                  const char* what, FindingList& findings) {
  std::size_t missing = 0;
  std::string names;
  constexpr std::size_t kShown = 5;
  for (const OpId op : problem.ops()) {
    if (given[op]) continue;
    if (missing++ < kShown) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", problem.graph().name(op));
  }
  if (missing == 0) return;
  findings.add(object.begin_offset(), "missing-op",
               fmt::format("the {} leaves out {} of {}: {}{}", what, missing, counted(problem.op_count(), "op"), names,
                           missing > kShown ? ", ..." : ""),
               "every op of the graph needs one");
}

Placement read_placement(const JsonValue& object, const Problem& problem, ProblemNames& names, FindingList& findings) {
  Placement placement(problem.op_count());
  IdMap<OpId, std::uint8_t> given(problem.op_count(), 0);
  for_each_op(object, names, [&](OpId op, const JsonValue& member) {
    given[op] = 1;
    if (const auto device = names.device(member)) placement[op] = *device;
  });
  find_missing(problem, given, object, "placement", findings);
  return placement;
}

IdMap<DeviceId, std::vector<OpId>> read_order(const JsonValue& object, const Problem& problem, ProblemNames& names,
                                              FindingList& findings) {
  IdMap<DeviceId, std::vector<OpId>> order(problem.device_count());
  for (const JsonValue member : object.children()) {
    const auto device = names.device(member.key(), member.key_offset());
    if (!expect(member, JsonKind::array, findings)) continue;
    for (const JsonValue element : member.children()) {
      const auto op = names.op(element);
      if (op && device) order[*device].push_back(*op);
    }
  }
  return order;
}

Plan read_plan(const JsonValue& value, const Problem& problem, ProblemNames& names, FindingList& findings) {
  Plan plan;
  plan.start.assign(problem.op_count(), Nanoseconds{});
  ObjectReader reader{value, "\"planned\"", findings};
  plan.makespan = reader.time("makespan_ns");
  if (const auto starts = reader.required("start_ns", JsonKind::object)) {
    IdMap<OpId, std::uint8_t> given(problem.op_count(), 0);
    for_each_op(*starts, names, [&](OpId op, const JsonValue& member) {
      given[op] = 1;
      read_count(member, plan.start[op].count, "nanoseconds", "negative-time", findings);
    });
    find_missing(problem, given, *starts, "plan", findings);
  }
  reader.check_unknown_keys();
  return plan;
}

void read_placer(const JsonValue& value, Schedule& schedule, FindingList& findings) {
  ObjectReader reader{value, "\"placer\"", findings};
  schedule.placer = reader.text("name");
  if (const auto seed = reader.get("seed")) read_seed(*seed, schedule.seed, findings);
  reader.get("options", JsonKind::object);
  reader.get("seconds", JsonKind::number);
  reader.check_unknown_keys();
}

Policy read_policy(const std::optional<JsonValue>& value, const Schedule& schedule, FindingList& findings) {
  const bool ordered = !schedule.order.empty();
  if (!value) return ordered ? Policy::strict : schedule.priority.empty() ? Policy::fifo : Policy::priority;
  if (!expect(*value, JsonKind::string, findings)) return Policy::fifo;
  const auto at = std::find(kPolicies.begin(), kPolicies.end(), value->text());
  if (at == kPolicies.end()) {
    findings.add(value->begin_offset(), "unknown-policy", fmt::format("unknown policy \"{}\"", value->text()),
                 "a policy is fifo, priority or strict");
    return Policy::fifo;
  }
  const auto policy = static_cast<Policy>(at - kPolicies.begin());
  if (policy == Policy::strict && !ordered)
    findings.add(value->begin_offset(), "missing-key", "the policy is strict, but there is no \"order\"",
                 "give \"order\": {device: [op, ...]}, or another policy");
  return policy;
}

/// Replaces findings about unknown ops or devices by a single one if the file was made for another graph or cluster.
void find_other_problem(const JsonValue& root, const Problem& problem, const ProblemNames& names,
                        FindingList& findings) {
  const auto other = [&](const char* key, const char* code, const std::string& name, std::size_t unknown,
                         const char* thing) {
    const auto made_for = root.find(key);
    if (unknown == 0 || !made_for || made_for->kind() != JsonKind::string || made_for->text() == name) return false;
    findings.replace(
        made_for->begin_offset(), code,
        fmt::format("the schedule was made for the {} '{}', not for '{}': it names {} that '{}' does not have", key,
                    made_for->text(), name, counted(unknown, thing), name),
        fmt::format("give the {} that it was made for, or make a new schedule for this one", key));
    return true;
  };
  if (!other("graph", "other-graph", problem.graph().name(), names.unknown_ops(), "op"))
    other("cluster", "other-cluster", problem.cluster().name(), names.unknown_devices(), "device");
}

void read_algorithm(ObjectReader& reader, Collective& algorithm, FindingList& findings) {
  const auto collective = reader.get("collective", JsonKind::string);
  if (!collective) return;
  const auto found = find_collective(collective->text());
  if (!found)
    findings.add(collective->begin_offset(), "unknown-collective",
                 fmt::format("unknown collective \"{}\"", collective->text()),
                 "give parameter-server, ring, halving-doubling, tree, hierarchical or whole");
  algorithm = found.value_or(algorithm);
}

/// A number of a rewrite: at least `least`, or `otherwise` if the key is absent.
std::int64_t read_number(ObjectReader& reader, const char* key, std::int64_t least, std::int64_t otherwise,
                         FindingList& findings) {
  const auto value = reader.get(key);
  if (!value) return otherwise;
  std::int64_t number = otherwise;
  read_count(*value, number, key, "split-parts", findings);
  if (number < least)
    findings.add(value->begin_offset(), "split-parts", fmt::format("\"{}\" must be at least {}", key, least));
  return std::max(number, least);
}

/// Reads the members of a rewrite into replicas other than their number.
void read_replicas(ObjectReader& reader, Replicate& replicate, FindingList& findings) {
  read_algorithm(reader, replicate.collective, findings);
  const auto count = [&](const char* key, std::int64_t least, std::int64_t otherwise) {
    return static_cast<std::size_t>(read_number(reader, key, least, otherwise, findings));
  };
  replicate.per_node = count("per_node", 1, 1);
  replicate.zero = count("zero", 0, 0);
  replicate.experts = count("experts", 1, 1);
  replicate.context = count("context", 1, 1);
  if (const auto exchange = reader.get("exchange", JsonKind::string)) {
    if (const auto found = find_context_exchange(exchange->text()))
      replicate.exchange = *found;
    else
      findings.add(exchange->begin_offset(), "exchange",
                   fmt::format("unknown exchange \"{}\" for replicas that share a sequence", exchange->text()),
                   "give all-gather, all-to-all or ring");
  }
  replicate.bucket = Bytes{read_number(reader, "bucket_bytes", 1, Replicate::kBucket.count, findings)};
  replicate.fold = count("fold", 1, 0);
  const auto counts = [&](const char* key, const char* what, std::vector<std::size_t>& numbers) {
    const auto array = reader.get(key, JsonKind::array);
    if (!array) return;
    for (const JsonValue value : array->children()) {
      std::int64_t number = 0;
      read_count(value, number, what, "split-parts", findings);
      numbers.push_back(static_cast<std::size_t>(std::max<std::int64_t>(number, 0)));
    }
  };
  counts("classes", "replicas", replicate.classes);
  counts("class_of", "the class", replicate.class_of);
  if (const auto stages = reader.get("stages")) read(*stages, replicate.stages, findings);
}

SplitOp read_split(ObjectReader& reader, FindingList& findings) {
  SplitOp split;
  if (const auto op = reader.required("op", JsonKind::string)) split.op = op->text();
  if (const auto dimension = reader.required("dimension", JsonKind::string)) {
    const auto found = find_split_dimension(dimension->text());
    if (!found)
      findings.add(dimension->begin_offset(), "unknown-dimension",
                   fmt::format("unknown dimension \"{}\"", dimension->text()), "give batch or channel");
    split.dimension = found.value_or(SplitDimension::batch);
  }
  if (const auto count = reader.required("parts")) {
    std::int64_t parts = 0;
    read_count(*count, parts, "parts", "split-parts", findings);
    if (parts < 2) findings.add(count->begin_offset(), "split-parts", "an op must be split into at least 2 parts");
    split.parts = static_cast<std::size_t>(std::max<std::int64_t>(parts, 2));
  }
  return split;
}

std::size_t read_copies(const JsonValue& value, const char* one, const char* many, FindingList& findings) {
  std::int64_t number = 0;
  read_count(value, number, many, "split-parts", findings);
  if (number < 1)
    findings.add(value.begin_offset(), "split-parts", fmt::format("a graph must have at least one {}", one));
  return static_cast<std::size_t>(std::max<std::int64_t>(number, 1));
}

StageMeshes read_meshes(ObjectReader& reader, const JsonValue& list, FindingList& findings) {
  StageMeshes meshes;
  read_algorithm(reader, meshes.collective, findings);
  meshes.zero = static_cast<std::size_t>(read_number(reader, "zero", 0, 0, findings));
  meshes.bucket = Bytes{read_number(reader, "bucket_bytes", 1, Replicate::kBucket.count, findings)};
  for (const JsonValue member : list.children()) {
    ObjectReader stage{member, "a stage", findings};
    StageMesh mesh;
    if (const auto ops = stage.required("ops")) read(*ops, mesh.ops, findings);
    if (const auto replicas = stage.get("replicas"))
      mesh.replicas = read_copies(*replicas, "replica", "replicas", findings);
    if (const auto ranks = stage.get("ranks")) mesh.ranks = read_copies(*ranks, "rank", "ranks", findings);
    if (const auto sequence = stage.get("sequence")) read(*sequence, mesh.sequence, findings);
    stage.check_unknown_keys();
    meshes.stages.push_back(std::move(mesh));
  }
  return meshes;
}

std::vector<Rewrite> read_rewrites(const JsonValue& list, FindingList& findings) {
  std::vector<Rewrite> rewrites;
  const auto copies = [&](const JsonValue& value, const char* one, const char* many) {
    return read_copies(value, one, many, findings);
  };
  for (const JsonValue member : list.children()) {
    ObjectReader reader{member, "a rewrite", findings};
    if (!reader.is_object()) continue;
    if (const auto replicas = reader.get("replicas")) {
      Replicate replicate{.replicas = copies(*replicas, "replica", "replicas")};
      read_replicas(reader, replicate, findings);
      rewrites.emplace_back(replicate);
    } else if (const auto microbatches = reader.get("microbatches")) {
      Microbatch batch{copies(*microbatches, "microbatch", "microbatches")};
      batch.at_once = static_cast<std::size_t>(read_number(reader, "at_once", 1, 0, findings));
      rewrites.emplace_back(batch);
    } else if (const auto ranks = reader.get("tensor")) {
      TensorParallel parallel{copies(*ranks, "rank", "ranks")};
      read_algorithm(reader, parallel.collective, findings);
      if (const auto sequence = reader.get("sequence")) read(*sequence, parallel.sequence, findings);
      parallel.fold = static_cast<std::size_t>(read_number(reader, "fold", 1, 0, findings));
      rewrites.emplace_back(parallel);
    } else if (const auto stages = reader.get("meshes", JsonKind::array)) {
      rewrites.emplace_back(read_meshes(reader, *stages, findings));
    } else if (const auto tensor = reader.get("offload")) {
      Offload away;
      if (expect(*tensor, JsonKind::string, findings)) away.tensor = tensor->text();
      if (const auto op = reader.get("away_before", JsonKind::string)) away.away_before = op->text();
      if (const auto op = reader.required("back_after", JsonKind::string)) away.back_after = op->text();
      rewrites.emplace_back(std::move(away));
    } else if (const auto tied = reader.get("tied")) {
      TiedCopies made;
      if (expect(*tied, JsonKind::array, findings))
        for (const JsonValue copy : tied->children()) read(copy, made.copies.emplace_back(), findings);
      rewrites.emplace_back(std::move(made));
    } else if (const auto ops = reader.get("recompute")) {
      Recompute again;
      read(*ops, again.ops, findings);
      if (const auto also = reader.get("also")) read(*also, again.also, findings);
      rewrites.emplace_back(std::move(again));
    } else {
      rewrites.emplace_back(read_split(reader, findings));
    }
    reader.check_unknown_keys();
  }
  return rewrites;
}

/// The problem that the schedule places. An error in a rewrite is reported at the list of rewrites.
Problem rewritten(const Problem& whole, const Schedule& schedule, const std::optional<JsonValue>& list,
                  FindingList& findings) {
  try {
    return scheduled_problem(whole, schedule);
  } catch (const InputError& error) {
    const Finding& first = error.findings().front();
    findings.add(list ? list->begin_offset() : 0, first.code, first.message, first.help);
    findings.raise_if_any();
    throw;
  }
}

void append_names(std::string& out, const std::vector<std::string>& ops) {
  out += '[';
  for (const std::string& op : ops) {
    if (&op != ops.data()) out += ", ";
    append_json(out, op);
  }
  out += ']';
}

void append_rewrite(std::string& out, const SplitOp& split) {
  out += fmt::format("{{\"op\": {}, \"dimension\": \"{}\", \"parts\": {}}}", json_string(split.op),
                     name_of(split.dimension), split.parts);
}

void append_rewrite(std::string& out, const Replicate& replicate) {
  out += fmt::format("{{\"replicas\": {}", replicate.replicas);
  if (replicate.collective != Collective::parameter_server)
    out += fmt::format(", \"collective\": \"{}\"", name_of(replicate.collective));
  if (replicate.per_node != 1) out += fmt::format(", \"per_node\": {}", replicate.per_node);
  if (replicate.zero != 0) out += fmt::format(", \"zero\": {}", replicate.zero);
  if (replicate.experts != 1) out += fmt::format(", \"experts\": {}", replicate.experts);
  if (replicate.context != 1)
    out += fmt::format(", \"context\": {}, \"exchange\": \"{}\"", replicate.context, name_of(replicate.exchange));
  if (replicate.bucket != Replicate::kBucket) out += fmt::format(", \"bucket_bytes\": {}", replicate.bucket.count);
  if (replicate.fold != 0)
    out += fmt::format(", \"fold\": {}, \"classes\": [{}]", replicate.fold, fmt::join(replicate.classes, ", "));
  if (!replicate.class_of.empty()) out += fmt::format(", \"class_of\": [{}]", fmt::join(replicate.class_of, ", "));
  if (!replicate.stages.empty()) {
    out += ", \"stages\": ";
    append_names(out, replicate.stages);
  }
  out += '}';
}

void append_rewrite(std::string& out, const Microbatch& batch) {
  out += fmt::format("{{\"microbatches\": {}", batch.parts);
  if (batch.at_once != 0) out += fmt::format(", \"at_once\": {}", batch.at_once);
  out += '}';
}

void append_rewrite(std::string& out, const TensorParallel& parallel) {
  out += fmt::format("{{\"tensor\": {}", parallel.ranks);
  if (parallel.collective != Collective::ring)
    out += fmt::format(", \"collective\": \"{}\"", name_of(parallel.collective));
  if (parallel.sequence) out += ", \"sequence\": true";
  if (parallel.fold != 0) out += fmt::format(", \"fold\": {}", parallel.fold);
  out += '}';
}

void append_rewrite(std::string& out, const StageMeshes& meshes) {
  out += "{\"meshes\": [";
  for (const StageMesh& mesh : meshes.stages) {
    out += &mesh == meshes.stages.data() ? "{\"ops\": " : ",\n   {\"ops\": ";
    append_names(out, mesh.ops);
    if (mesh.replicas != 1) out += fmt::format(", \"replicas\": {}", mesh.replicas);
    if (mesh.ranks != 1) out += fmt::format(", \"ranks\": {}", mesh.ranks);
    if (mesh.sequence) out += ", \"sequence\": true";
    out += '}';
  }
  out += ']';
  if (meshes.collective != Collective::ring) out += fmt::format(", \"collective\": \"{}\"", name_of(meshes.collective));
  if (meshes.zero != 0) out += fmt::format(", \"zero\": {}", meshes.zero);
  if (meshes.bucket != Replicate::kBucket) out += fmt::format(", \"bucket_bytes\": {}", meshes.bucket.count);
  out += '}';
}

void append_rewrite(std::string& out, const Recompute& again) {
  out += "{\"recompute\": ";
  append_names(out, again.ops);
  if (!again.also.empty()) {
    out += ", \"also\": ";
    append_names(out, again.also);
  }
  out += '}';
}

void append_rewrite(std::string& out, const Offload& away) {
  out += fmt::format("{{\"offload\": {}", json_string(away.tensor));
  if (!away.away_before.empty()) out += fmt::format(", \"away_before\": {}", json_string(away.away_before));
  out += fmt::format(", \"back_after\": {}}}", json_string(away.back_after));
}

void append_rewrite(std::string& out, const TiedCopies& tied) {
  out += "{\"tied\": [";
  for (const auto& copy : tied.copies) {
    if (&copy != tied.copies.data()) out += ",\n   ";
    append_names(out, copy);
  }
  out += "]}";
}

void append_rewrites(std::string& out, const std::vector<Rewrite>& rewrites) {
  out += ",\n \"splits\": [";
  for (const Rewrite& rewrite : rewrites) {
    out += &rewrite == rewrites.data() ? "\n  " : ",\n  ";
    std::visit([&](const auto& each) { append_rewrite(out, each); }, rewrite);
  }
  out += ']';
}

/// Appends {"a": x, "b": y} with one op per line. `append_value` appends an op's value; an op for which it appends
/// nothing is left out.
template <class AppendValue>
void append_per_op(std::string& out, std::ostream& stream, const Problem& problem, const AppendValue& append_value) {
  out += '{';
  bool first = true;
  for (const OpId op : problem.ops()) {
    std::string value;
    append_value(value, op);
    if (value.empty()) continue;
    out += first ? "\n  " : ",\n  ";
    first = false;
    append_json(out, problem.graph().name(op));
    out += ": " + value;
    pass_on(out, stream);
  }
  out += '}';
}

}  // namespace

const char* name_of(Policy policy) { return kPolicies[static_cast<std::size_t>(policy)].c_str(); }

Schedule read_schedule(const std::filesystem::path& path, const Problem& problem) {
  return parse_schedule(read_input(path), input_name(path), problem);
}

Schedule parse_schedule(std::string_view text, const std::string& name, const Problem& whole) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  Schedule schedule;
  if (root && check_format(*root, kScheduleFormat, findings)) {
    ObjectReader reader{*root, "a schedule", findings};
    reader.get("format");
    reader.get("graph", JsonKind::string);
    reader.get("cluster", JsonKind::string);
    const auto list = reader.get("splits", JsonKind::array);
    if (list) schedule.rewrites = read_rewrites(*list, findings);
    findings.raise_if_any();
    const Problem problem = rewritten(whole, schedule, list, findings);
    ProblemNames names{problem, findings};
    const auto policy = reader.get("policy");
    if (const auto placement = reader.required("placement", JsonKind::object))
      schedule.placement = read_placement(*placement, problem, names, findings);
    if (const auto priority = reader.get("priority", JsonKind::object)) {
      schedule.priority.assign(problem.op_count(), 0.0);
      for_each_op(*priority, names,
                  [&](OpId op, const JsonValue& member) { read(member, schedule.priority[op], findings); });
    }
    if (const auto order = reader.get("order", JsonKind::object))
      schedule.order = read_order(*order, problem, names, findings);
    schedule.policy = read_policy(policy, schedule, findings);
    if (const auto links = reader.get("links", JsonKind::string)) {
      schedule.urgent_links = links->text() == "priority";
      if (!schedule.urgent_links && links->text() != "fifo")
        findings.add(links->begin_offset(), "unknown-policy",
                     fmt::format("unknown order of links \"{}\"", links->text()),
                     "give fifo, or priority if the policy is strict");
    }
    if (const auto placer = reader.get("placer")) read_placer(*placer, schedule, findings);
    if (const auto planned = reader.get("planned")) schedule.plan = read_plan(*planned, problem, names, findings);
    reader.get("predicted", JsonKind::object);
    reader.check_unknown_keys();
    find_other_problem(*root, problem, names, findings);
    findings.raise_if_any();
    try {
      check_schedule(problem, schedule);
    } catch (const InputError& error) {
      findings.add(error.findings());
    }
  }
  findings.raise_if_any();
  return schedule;
}

namespace {

constexpr const char* kWholePlan = "give a start time for each op, or no plan";

/// Throws InputError if the reader would reject these rewrites.
void check_written(const std::string& rewrites) {
  const std::string text = fmt::format("{{\"format\": \"{}\"{}}}", kScheduleFormat, rewrites);
  FindingList findings{"the schedule", text};
  JsonTree tree;
  if (const auto root = parse_json(text, tree, findings)) {
    ObjectReader reader{*root, "a schedule", findings};
    if (const auto list = reader.get("splits", JsonKind::array)) read_rewrites(*list, findings);
  }
  findings.raise_if_any();
}

/// Checks the parts that check_schedule() ignores because no simulation reads them: the placer's plan, and an order
/// under a policy other than strict.
void check_unread(const Problem& problem, const Schedule& schedule) {
  if (schedule.plan && schedule.plan->start.size() != problem.op_count())
    refuse("size",
           fmt::format("the plan has {} start times, but graph '{}' has {} ops", schedule.plan->start.size(),
                       problem.graph().name(), problem.op_count()),
           kWholePlan);
  const auto is_time = [](Nanoseconds time) { return time >= Nanoseconds{0} && time <= kLongestTime; };
  if (schedule.plan && !(is_time(schedule.plan->makespan) && std::ranges::all_of(schedule.plan->start, is_time)))
    refuse("range", "a time of the plan is negative or above 2^62 ns (146 years)", kWholePlan);
  const auto is_op = [&](OpId op) { return op.index() < problem.op_count(); };
  const auto is_known = [&](const std::vector<OpId>& ops) { return std::ranges::all_of(ops, is_op); };
  if (!schedule.order.empty() &&
      (schedule.order.size() != problem.device_count() || !std::ranges::all_of(schedule.order, is_known)))
    refuse("order", "the order, which the policy does not use, is for other devices or ops",
           "leave out the order, or give the policy strict and every op once");
}

}  // namespace

void write_schedule(const Schedule& schedule, const Problem& whole, const SchedulePrediction* prediction,
                    std::ostream& out) {
  refuse_own_rule(schedule, "a schedule file");
  const Problem problem = scheduled_problem(whole, schedule);
  check_schedule(problem, schedule);
  check_unread(problem, schedule);
  std::string rewrites;
  append_rewrites(rewrites, schedule.rewrites);
  check_written(rewrites);
  std::string text =
      fmt::format("{{\"format\": \"{}\", \"graph\": {}, \"cluster\": {}, \"policy\": \"{}\",\n", kScheduleFormat,
                  json_string(problem.graph().name()), json_string(problem.cluster().name()), name_of(schedule.policy));
  text += " \"placement\": ";
  append_per_op(text, out, problem, [&](std::string& value, OpId op) {
    append_json(value, problem.cluster().device(schedule.placement[op]).name);
  });
  if (!schedule.priority.empty()) {
    text += ",\n \"priority\": ";
    append_per_op(text, out, problem, [&](std::string& value, OpId op) {
      if (schedule.priority[op] != 0) append_json(value, schedule.priority[op]);
    });
  }
  if (schedule.urgent_links) text += ",\n \"links\": \"priority\"";
  if (!schedule.order.empty()) {
    text += ",\n \"order\": {";
    for (const DeviceId device : problem.devices()) {
      text += device.index() ? ",\n  " : "\n  ";
      append_json(text, problem.cluster().device(device).name);
      text += ": [";
      for (const OpId op : schedule.order[device]) {
        if (text.back() != '[') text += ", ";
        append_json(text, problem.graph().name(op));
        pass_on(text, out);
      }
      text += ']';
    }
    text += '}';
  }
  text += rewrites;
  if (!schedule.placer.empty() || schedule.seed != 0)
    text += fmt::format(",\n \"placer\": {{\"name\": {}, \"seed\": {}}}", json_string(schedule.placer), schedule.seed);
  if (schedule.plan) {
    text += fmt::format(",\n \"planned\": {{\"makespan_ns\": {}, \"start_ns\": ", schedule.plan->makespan.count);
    append_per_op(text, out, problem,
                  [&](std::string& value, OpId op) { append_json(value, schedule.plan->start[op].count); });
    text += '}';
  }
  if (prediction) {
    text += fmt::format(",\n \"predicted\": {{\"makespan_ns\": {}", prediction->makespan.count);
    if (prediction->lower_bound) text += fmt::format(", \"lower_bound_ns\": {}", prediction->lower_bound->count);
    if (prediction->fits) text += fmt::format(", \"fits\": {}", *prediction->fits);
    text += '}';
  }
  out << text << "}\n";
}

}  // namespace trainyard
