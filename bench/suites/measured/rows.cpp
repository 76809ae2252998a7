#include "rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_value.hpp"

namespace trainyard::bench {
namespace {

using namespace detail;

constexpr double kMostCount = 1e6;

/// The members of an object, with another object's members in place of missing ones.
class Members {
 public:
  Members(JsonValue own, std::optional<JsonValue> common, FindingList& findings)
      : own_(own), common_(common), findings_(findings) {}

  std::optional<JsonValue> find(const char* key) const {
    auto member = own_.find(key);
    if (!member && common_) member = common_->find(key);
    return member && member->kind() != JsonKind::null ? member : std::nullopt;
  }
  std::string text(const char* key) const {
    std::string value;
    if (const auto member = find(key)) read(*member, value, findings_);
    return value;
  }
  std::optional<double> number(const char* key) const {
    double value = 0;
    const auto member = find(key);
    return member && read(*member, value, findings_) ? std::optional{value} : std::nullopt;
  }
  std::optional<double> positive(const char* key, double most = 1e15) const {
    const auto value = number(key);
    if (value && (*value <= 0 || *value > most))
      findings_.add(find(key)->begin_offset(), "range", fmt::format("\"{}\" is {}", key, *value),
                    fmt::format("give one above 0, to {:g}", most));
    return value;
  }
  std::optional<bool> flag(const char* key) const {
    bool value = false;
    const auto member = find(key);
    return member && read(*member, value, findings_) ? std::optional{value} : std::nullopt;
  }
  /// Seconds from a number of milliseconds in the object "also".
  std::optional<double> also_seconds(const char* key) const {
    const auto also = find("also");
    if (!also || !expect(*also, JsonKind::object, findings_)) return std::nullopt;
    const auto ms = Members{*also, std::nullopt, findings_}.positive(key);
    return ms ? std::optional{*ms / 1000} : std::nullopt;
  }
  std::size_t count(const char* key, std::size_t otherwise) const {
    const auto value = number(key);
    if (!value) return otherwise;
    if (*value >= 1 && *value <= kMostCount && *value == std::floor(*value)) return static_cast<std::size_t>(*value);
    findings_.add(find(key)->begin_offset(), "range", fmt::format("\"{}\" is {}", key, *value),
                  "give a whole number from 1 to 1000000");
    return otherwise;
  }

 private:
  JsonValue own_;
  std::optional<JsonValue> common_;
  FindingList& findings_;
};

MeasuredRow read_row(JsonValue element, const std::optional<JsonValue>& common, FindingList& findings) {
  const Members of{element, common, findings};
  MeasuredRow row;
  row.id = of.text("id");
  if (row.id.empty()) findings.add(element.begin_offset(), "missing-key", "a row has no \"id\"");
  row.model = of.text("model"), row.family = of.text("family"), row.gpu_kind = of.text("gpu_kind");
  row.precision = of.text("precision"), row.framework = of.text("framework"), row.schedule = of.text("schedule");
  row.recompute = of.text("recompute"), row.interconnect = of.text("interconnect"), row.split = of.text("split");
  row.where = of.text("where");
  row.gpus = of.count("gpus", 1), row.gpus_per_node = of.count("gpus_per_node", row.gpus);
  row.tensor = of.count("tp", 1), row.pipeline = of.count("pp", 1), row.context = of.count("cp", 1);
  row.data = of.count("dp", std::max<std::size_t>(1, row.gpus / (row.tensor * row.pipeline * row.context)));
  row.parameters = of.positive("params"), row.layers = of.positive("layers", kMostCount),
  row.hidden = of.positive("hidden");
  row.heads = of.positive("heads"), row.feed_forward = of.positive("ffn"), row.sequence = of.positive("seq"),
  row.vocabulary = of.positive("vocab");
  row.batch = of.positive("batch_global"), row.microbatch = of.positive("microbatch");
  row.zero = static_cast<std::size_t>(std::clamp(of.number("zero").value_or(0), 0.0, 3.0));
  row.shares_sequence = of.flag("sequence_parallel");
  if (const auto chunks = of.number("vpp"); chunks && *chunks >= 1) row.chunks = chunks;  // -1: one layer per chunk
  row.seconds = of.positive("step_seconds");
  if (row.family != "gpt-layer") return row;
  row.forward_seconds = of.also_seconds("forward_ms"), row.backward_seconds = of.also_seconds("backward_ms");
  if (row.forward_seconds && row.backward_seconds) row.seconds = *row.forward_seconds + *row.backward_seconds;
  return row;
}

/// Calls `each` with the root, the element and the findings for each element of "data". Elements must be objects.
template <class Each>
void read_elements(const std::filesystem::path& path, const Each& each) {
  const std::string text = read_input(path);
  FindingList findings{input_name(path), text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  findings.raise_if_any();
  const auto data = root->find("data");
  if (!data || data->kind() != JsonKind::array)
    findings.add(root->begin_offset(), "missing-key", "there is no array \"data\" of rows",
                 "give a file of published runs, as data/measured/README.md describes");
  findings.raise_if_any();
  for (const JsonValue element : data->children())
    if (expect(element, JsonKind::object, findings)) each(*root, element, findings);
  findings.raise_if_any();
}

double at_bytes(const std::vector<std::pair<double, double>>& curve, double bytes) {
  if (bytes <= curve.front().first) return curve.front().second * std::max(0.5, bytes / curve.front().first);
  std::size_t i = 1;
  while (i + 1 < curve.size() && curve[i].first < bytes) ++i;
  const auto [x0, y0] = curve[i - 1];
  const auto [x1, y1] = curve[i];
  return y0 + (bytes - x0) * (y1 - y0) / (x1 - x0);
}

}  // namespace

bool MeasuredRow::is_half() const {
  for (const char* word : {"fp16", "bf16", "amp", "AMP", "BF16"})
    if (precision.find(word) != std::string::npos) return true;
  return false;
}

std::optional<double> MeasuredRow::accumulation() const {
  if (!batch || !microbatch) return std::nullopt;
  return std::max(1.0, std::round(*batch / (*microbatch * static_cast<double>(data))));
}

MeasuredSource read_measured(const std::filesystem::path& path) {
  MeasuredSource source;
  read_elements(path, [&](const JsonValue& root, const JsonValue& element, FindingList& findings) {
    if (source.rows.empty()) source.name = Members{root, std::nullopt, findings}.text("name");
    source.rows.push_back(read_row(element, root.find("common"), findings));
  });
  return source;
}

std::string generation(std::string_view gpu_kind) {
  return std::string{gpu_kind.substr(0, gpu_kind.find_first_of("- ("))};
}

AllReduceTimes AllReduceTimes::read(const std::filesystem::path& path) {
  AllReduceTimes times;
  read_elements(path, [&](const JsonValue&, const JsonValue& element, FindingList& findings) {
    const Members of{element, std::nullopt, findings};
    const auto bytes = of.positive("bytes"), us = of.positive("time_us");
    const std::size_t gpus = of.count("gpus", 1);
    const std::string op = of.text("op"), kind = of.text("gpu_kind");
    if (op == "all-reduce" && of.count("nodes", 1) == 1 && gpus > 1 && bytes && us)
      times.curves_[kind][gpus].emplace_back(*bytes, *us * 1e-6);
  });
  for (auto& [kind, by_count] : times.curves_) {
    for (auto& [gpus, curve] : by_count) {
      std::ranges::sort(curve);
      const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
      curve.erase(std::unique(curve.begin(), curve.end(), same), curve.end());
    }
    std::erase_if(by_count, [](const auto& each) { return each.second.size() < 2; });
  }
  std::erase_if(times.curves_, [](const auto& each) { return each.second.empty(); });
  return times;
}

std::optional<double> AllReduceTimes::seconds(std::string_view gpu_kind, std::size_t gpus, double bytes) const {
  if (gpus < 2) return 0;
  const auto is_like = [&](const auto& each) { return generation(each.first) == generation(gpu_kind); };
  auto found = curves_.find(gpu_kind);
  if (found == curves_.end()) found = std::ranges::find_if(curves_, is_like);
  if (found == curves_.end()) return std::nullopt;
  auto nearest = found->second.lower_bound(gpus);
  if (nearest == found->second.end()) --nearest;
  const auto share = [](std::size_t n) { return static_cast<double>(n - 1) / static_cast<double>(n); };
  return at_bytes(nearest->second, bytes) * share(gpus) / share(nearest->first);
}

}  // namespace trainyard::bench
