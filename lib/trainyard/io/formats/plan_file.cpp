#include "trainyard/io/formats/plan_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_object.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kPlanFormat = "trainyard-plan/1";
constexpr const char* kTwoDegrees = "degrees are given both for the plan and for its stages";
constexpr const char* kOneOfDegrees = "give \"data\", \"tensor\" and \"sequence\" for the plan, or for each stage";
/// Largest degree. The product of three degrees fits easily in 64 bits.
constexpr std::int64_t kMostDegree = std::int64_t{1} << 20;

PipelineSchedule read_task_order(const JsonValue& value, FindingList& findings) {
  std::string words;
  for (const PipelineSchedule each : kPlanSchedules) {
    if (value.text() == name_of(each)) return each;
    words += (words.empty() ? "" : ", ") + std::string{name_of(each)};
  }
  findings.add(value.begin_offset(), "unknown-schedule", fmt::format("unknown pipeline schedule \"{}\"", value.text()),
               "known schedules: " + words);
  return PipelineSchedule::one_f_one_b;
}

DeviceOrder read_order(const JsonValue& value, FindingList& findings) {
  for (const DeviceOrder each : {DeviceOrder::given, DeviceOrder::best_first, DeviceOrder::best_last})
    if (value.text() == name_of(each)) return each;
  findings.add(value.begin_offset(), "devices", fmt::format("unknown order of devices \"{}\"", value.text()),
               "known orders: given, best-first, best-last");
  return DeviceOrder::given;
}

/// Reads true, false, "attention", "full", a number of blocks, {"attention": number}, or {"full": number}.
StageRecomputation read_recompute(const JsonValue& value, FindingList& findings) {
  if (value.kind() == JsonKind::string) {
    if (value.text() == "attention") return StageRecompute::attention;
    if (value.text() == "full") return StageRecompute::full;
    findings.add(value.begin_offset(), "recompute", fmt::format("unknown recomputation \"{}\"", value.text()),
                 "give true for all blocks of the stage, a number of blocks, \"attention\" for only their attention "
                 "scores, or \"full\" for all their ops, as Megatron-LM does");
    return StageRecompute::no;
  }
  if (value.kind() == JsonKind::number) {
    std::int64_t blocks = 0;
    if (!read_count(value, blocks, "layers", "recompute", findings)) return StageRecompute::no;
    return {StageRecompute::blocks, static_cast<std::size_t>(blocks)};
  }
  if (value.kind() == JsonKind::object) {
    ObjectReader reader{value, "what a stage recomputes", findings};
    std::int64_t blocks = 0;
    const auto full = reader.get("full");
    if (const auto count = full ? full : reader.required("attention"))
      read_count(*count, blocks, "layers", "recompute", findings);
    reader.check_unknown_keys();
    return {full ? StageRecompute::full : StageRecompute::attention,
            static_cast<std::size_t>(std::max<std::int64_t>(blocks, 0))};
  }
  bool again = false;
  read(value, again, findings);
  return again ? StageRecompute::blocks : StageRecompute::no;
}

std::string text_of(const StageRecomputation& recompute) {
  const bool all = recompute.layers == StageRecomputation::kAll;
  if (recompute.what == StageRecompute::blocks) return all ? "true" : fmt::to_string(recompute.layers);
  const char* what = recompute.what == StageRecompute::full ? "full" : "attention";
  return all ? fmt::format("\"{}\"", what) : fmt::format("{{\"{}\": {}}}", what, recompute.layers);
}

bool recomputes(const ParallelPlan& plan) { return plan.recomputing(StageRecompute::no) < plan.recompute.size(); }

/// Throws InputError ("stages") unless `recompute` and `degrees` match the number of stages in the file.
void check_stages(const PlanFile& file) {
  const ParallelPlan& plan = file.plan;
  const std::size_t stages = file.begins.size() + 1;
  if (!plan.recompute.empty() && plan.recompute.size() != stages)
    refuse("stages",
           fmt::format("recomputation is given for {}, but the plan has {}", counted(plan.recompute.size(), "stage"),
                       stages),
           "give it for each stage, or for none");
  if (!plan.degrees.empty() && plan.degrees.size() * plan.chunks != stages)
    refuse("stages",
           fmt::format("degrees are given for {} in the row with {} each, but the plan has {}",
                       counted(plan.degrees.size(), "device"), counted(plan.chunks, "stage"), counted(stages, "stage")),
           "give degrees for each device in the row, or for none");
}

/// Throws InputError for parts of a plan that the file cannot express.
void check_unwritten(const ParallelPlan& plan) {
  if (!plan.cuts.empty())
    refuse("plan", "the plan has cuts, but a plan file needs the names of blocks", "make the file with plan_file()");
  if (plan.bucket < Bytes{0})
    refuse("bucket_bytes", fmt::format("the size of buckets is negative: {} bytes", plan.bucket.count),
           "give 0 to leave the size open");
  if (!plan.degrees.empty() && (plan.data != 1 || plan.tensor != 1 || plan.sequence || plan.context != 1))
    refuse("degree", kTwoDegrees, kOneOfDegrees);
  if (plan.recomputing(StageRecompute::stages) > 0)
    refuse("recompute", "plan files cannot express recomputation of whole stages",
           "recompute the blocks of the stages instead");
}

struct Range {
  std::int64_t least = 1, most = kMostDegree;
};

std::size_t read_degree(ObjectReader& reader, const char* key, const char* unit, FindingList& findings,
                        std::size_t otherwise = 1, Range range = {}) {
  const auto value = reader.get(key);
  if (!value) return otherwise;
  std::int64_t number = -1;
  const bool negative = value->kind() == JsonKind::number && value->text().front() == '-';
  if (!negative && !read_count(*value, number, unit, "degree", findings)) return otherwise;
  if (number < range.least)
    findings.add(value->begin_offset(), "degree", fmt::format("\"{}\" must be at least {}", key, range.least));
  if (number > range.most)
    findings.add(value->begin_offset(), "degree", fmt::format("\"{}\" must be at most {}", key, range.most));
  return static_cast<std::size_t>(std::clamp(number, range.least, range.most));
}

/// Degrees of the stages in order; empty if no stage gives any.
using StageList = std::vector<StageDegrees>;

StageList read_stages(const JsonValue& list, PlanFile& file, FindingList& findings) {
  StageList degrees;
  bool any = false;
  for (const JsonValue member : list.children()) {
    ObjectReader reader{member, "a stage", findings};
    for (const char* key : {"data", "tensor", "sequence"}) any = any || reader.get(key);
    StageDegrees& own = degrees.emplace_back();
    own.data = read_degree(reader, "data", "replicas", findings);
    own.tensor.ranks = read_degree(reader, "tensor", "ranks", findings);
    if (const auto sequence = reader.get("sequence")) read(*sequence, own.tensor.sequence, findings);
    const auto recompute = reader.get("recompute");
    file.plan.recompute.push_back(recompute ? read_recompute(*recompute, findings) : StageRecompute::no);
    if (file.plan.recompute.size() > 1) {
      if (const auto from = reader.required("from", JsonKind::string)) file.begins.emplace_back(from->text());
    } else if (const auto from = reader.get("from", JsonKind::string)) {
      file.first = from->text();
    }
    reader.check_unknown_keys();
  }
  if (!recomputes(file.plan)) file.plan.recompute.clear();
  return any ? degrees : StageList{};
}

/// Converts degrees by stage to degrees by device in the row, each of which runs several stages. If all are equal, they
/// become the plan's degrees.
void take_degrees(const StageList& stages, const JsonValue& list, ParallelPlan& plan, FindingList& findings) {
  const std::size_t row = stages.size() / plan.chunks;
  plan.degrees.assign(stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(row));
  if (plan.data != 1 || plan.tensor != 1 || plan.sequence || plan.context != 1)
    findings.add(list.begin_offset(), "degree", kTwoDegrees, kOneOfDegrees);
  for (std::size_t s = row; s < stages.size(); ++s) {
    const std::size_t i = device_of(plan.schedule, s, row);
    if (stages[s] == stages[i]) continue;
    findings.add(list.begin_offset(), "degree",
                 fmt::format("stages {} and {} are on the same device in the row, but have different degrees", i, s),
                 "give both the same degrees");
    return;
  }
  const auto [data, tensor] = plan.degrees.front();
  if (std::ranges::count(plan.degrees, plan.degrees.front()) < std::ssize(plan.degrees) || plan.microbatch % data != 0)
    return;
  plan.degrees.clear();
  plan.data = data;
  plan.tensor = tensor.ranks;
  plan.sequence = tensor.sequence;
  plan.microbatch /= data;
}

}  // namespace

PlanFile read_plan(const std::filesystem::path& path) { return parse_plan(read_input(path), input_name(path)); }

PlanFile parse_plan(std::string_view text, const std::string& name) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  PlanFile file;
  if (root && check_format(*root, kPlanFormat, findings)) {
    ObjectReader reader{*root, "a plan", findings};
    reader.get("format");
    const auto count = [&](const char* key, const char* unit) { return read_degree(reader, key, unit, findings); };
    if (reader.get("batch")) file.batch = static_cast<std::int64_t>(count("batch", "samples"));
    file.plan.data = count("data", "replicas");
    file.plan.tensor = count("tensor", "ranks");
    file.plan.context = count("context", "ranks");
    if (const auto exchange = reader.get("exchange", JsonKind::string)) {
      if (const auto found = find_context_exchange(exchange->text()))
        file.plan.exchange = *found;
      else
        findings.add(exchange->begin_offset(), "exchange",
                     fmt::format("unknown exchange \"{}\" for ranks that share a sequence", exchange->text()),
                     "give all-gather, all-to-all or ring");
      if (!reader.get("context"))
        findings.add(exchange->begin_offset(), "exchange", "\"exchange\" is given, but no ranks share a sequence",
                     "give \"context\", or leave \"exchange\" out");
    }
    if (file.plan.context == 1) file.plan.exchange = {};  // no ranks to exchange with
    if (const auto sequence = reader.get("sequence")) read(*sequence, file.plan.sequence, findings);
    file.plan.microbatch = count("microbatch", "samples");
    reader.required("microbatch");
    file.plan.zero = read_degree(reader, "zero", "", findings, 0, {.least = 0, .most = 3});
    file.plan.experts = count("experts", "replicas");
    file.plan.slices = count("slices", "slices");
    if (const auto bytes = reader.get("bucket_bytes");
        bytes && read_count(*bytes, file.plan.bucket.count, "bytes", "bucket_bytes", findings) &&
        file.plan.bucket == Bytes{0})
      findings.add(bytes->begin_offset(), "bucket_bytes", "\"bucket_bytes\" must be at least 1",
                   "leave it out for buckets of 25 MiB");
    if (const auto schedule = reader.get("schedule", JsonKind::string))
      file.plan.schedule = read_task_order(*schedule, findings);
    if (const auto order = reader.get("devices", JsonKind::string)) file.plan.order = read_order(*order, findings);
    const auto list = reader.get("stages", JsonKind::array);
    const StageList degrees = list ? read_stages(*list, file, findings) : StageList{};
    const std::size_t stages = file.begins.size() + 1;
    std::size_t& chunks = file.plan.chunks;
    chunks = read_degree(reader, "chunks", "stages", findings, chunks_of(file.plan.schedule));
    if (const std::size_t own = chunks_of(file.plan.schedule, chunks); own != chunks)
      findings.add(
          reader.get("chunks")->begin_offset(), "stages",
          fmt::format("{} takes {} per device, not {}", name_of(file.plan.schedule), counted(own, "stage"), chunks),
          "leave \"chunks\" out: interleaved takes 2 or more, folded schedules 2, the others 1");
    else if (const std::size_t less = stages / chunks * chunks; less != stages)
      findings.add(
          (list ? *list : *root).begin_offset(), "stages",
          fmt::format("{} takes {} stages per device, but the plan has {} in all", name_of(file.plan.schedule), chunks,
                      stages),
          less > 0 ? fmt::format("give {} or {} stages", less, less + chunks) : fmt::format("give {} stages", chunks));
    else if (degrees.size() == stages)  // otherwise a stage has no "from", reported above
      take_degrees(degrees, *list, file.plan, findings);
    reader.check_unknown_keys();
  }
  findings.raise_if_any();
  return file;
}

void write_plan(const PlanFile& file, std::ostream& out) {
  const ParallelPlan& plan = file.plan;
  check_stages(file);
  check_unwritten(plan);
  std::string text = fmt::format("{{\"format\": \"{}\"", kPlanFormat);
  if (file.batch) text += fmt::format(", \"batch\": {}", *file.batch);
  if (plan.degrees.empty()) text += fmt::format(", \"data\": {}, \"tensor\": {}", plan.data, plan.tensor);
  text += fmt::format(", \"microbatch\": {}, \"zero\": {}, \"schedule\": \"{}\"", plan.microbatch, plan.zero,
                      name_of(plan.schedule));
  if (plan.context > 1)
    text += fmt::format(", \"context\": {}, \"exchange\": \"{}\"", plan.context, name_of(plan.exchange));
  if (plan.sequence) text += ", \"sequence\": true";
  if (plan.experts > 1) text += fmt::format(", \"experts\": {}", plan.experts);
  if (plan.slices > 1) text += fmt::format(", \"slices\": {}", plan.slices);
  if (plan.bucket > Bytes{0}) text += fmt::format(", \"bucket_bytes\": {}", plan.bucket.count);
  if (plan.chunks > 1) text += fmt::format(", \"chunks\": {}", plan.chunks);
  if (plan.order != DeviceOrder::given) text += fmt::format(", \"devices\": \"{}\"", name_of(plan.order));
  text += ",\n \"stages\": [";
  for (std::size_t s = 0; s <= file.begins.size(); ++s) {
    std::vector<std::string> members;
    if (s > 0 || file.first) members.push_back("\"from\": " + json_string(s > 0 ? file.begins[s - 1] : *file.first));
    if (!plan.degrees.empty()) {
      const auto& [data, tensor] = plan.degrees[device_of(plan.schedule, s, plan.degrees.size())];
      members.push_back(fmt::format("\"data\": {}, \"tensor\": {}", data, tensor.ranks));
      if (tensor.sequence) members.emplace_back("\"sequence\": true");
    }
    if (!plan.recompute.empty() && plan.recompute[s] != StageRecompute::no)
      members.push_back("\"recompute\": " + text_of(plan.recompute[s]));
    text += fmt::format("{}\n  {{{}}}", s > 0 ? "," : "", fmt::join(members, ", "));
  }
  text += "]}\n";
  parse_plan(text, "the plan");  // refuses numbers that the reader would reject
  out << text;
}

ParallelPlan plan_over(const PlanFile& file, std::span<const std::string> blocks) {
  ParallelPlan plan = file.plan;
  std::vector<Finding> findings;
  const auto refuse = [&](std::size_t stage, const char* code, std::string message, std::string help) {
    findings.push_back({code, std::move(message), std::move(help), fmt::format("/stages/{}/from", stage)});
  };
  const std::string all = blocks.empty() ? ""
                                         : fmt::format("the network has {}, '{}' to '{}'",
                                                       counted(blocks.size(), "block"), blocks.front(), blocks.back());
  if (file.first && !blocks.empty() && *file.first != blocks.front())
    refuse(0, "plan",
           fmt::format("the first stage must begin with the network's first block '{}', not with '{}'", blocks.front(),
                       *file.first),
           "leave \"from\" out, or add a stage before it");
  for (std::size_t s = 1; s <= file.begins.size(); ++s) {
    const std::string& begin = file.begins[s - 1];
    const auto at = std::ranges::find(blocks, begin);
    if (at == blocks.end()) {
      const std::string nearest = did_you_mean(begin, blocks);
      refuse(s, "unknown-block", fmt::format("a stage begins with '{}', but no block of layers has that name", begin),
             fmt::format("{}{}{}", nearest, nearest.empty() ? "" : " ", all));
    }
    plan.cuts.push_back(static_cast<std::size_t>(at - blocks.begin()));
  }
  for (std::size_t s = 1; findings.empty() && s <= plan.cuts.size(); ++s)
    if (const std::size_t before = s > 1 ? plan.cuts[s - 2] : 0; plan.cuts[s - 1] <= before)
      refuse(s, "plan",
             fmt::format("stage {} begins with '{}', which is not after '{}', the first block of stage {}", s,
                         blocks[plan.cuts[s - 1]], blocks[before], s - 1),
             "give stages in the order of their blocks");
  if (!findings.empty()) throw InputError(std::move(findings));
  return plan;
}

PlanFile plan_file(const ParallelPlan& plan, std::span<const std::string> blocks, std::optional<std::int64_t> batch) {
  PlanFile file{.plan = plan, .batch = batch};
  file.plan.cuts.clear();
  std::size_t before = 0;
  for (const std::size_t cut : plan.cuts) {
    if (cut <= before || cut >= blocks.size())
      refuse("plan",
             fmt::format("stage {} begins with block {}, which must be above {} and below {}", file.begins.size() + 1,
                         cut, before, blocks.size()),
             "give ascending cuts in this range");
    file.begins.push_back(blocks[before = cut]);
  }
  check_stages(file);
  for (std::size_t s = 0; s < plan.recompute.size(); ++s) {
    const std::size_t end = s < plan.cuts.size() ? plan.cuts[s] : blocks.size();
    StageRecomputation& again = file.plan.recompute[s];
    if (again.layers > end - (s > 0 ? plan.cuts[s - 1] : 0)) again.layers = StageRecomputation::kAll;
  }
  if (!recomputes(file.plan)) file.plan.recompute.clear();
  return file;
}

}  // namespace trainyard
