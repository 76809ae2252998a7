#include "trainyard/io/formats/policy_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/findings.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_object.hpp"
#include "trainyard/io/json/json_value.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kPolicyFormat = "trainyard-policy/1";

std::size_t count(const std::optional<JsonValue>& value, const char* unit, FindingList& findings) {
  std::int64_t number = 0;
  return value && read_count(*value, number, unit, "negative-count", findings) ? static_cast<std::size_t>(number) : 0;
}

LearnedPolicy::Weights read_weights(const JsonValue& value, FindingList& findings) {
  LearnedPolicy::Weights weights;
  ObjectReader reader{value, "an array of weights", findings};
  if (const auto name = reader.required("name")) read(*name, weights.name, findings);
  weights.rows = count(reader.required("rows"), "rows", findings);
  weights.columns = count(reader.required("columns"), "columns", findings);
  if (const auto values = reader.required("values", JsonKind::array)) {
    for (const JsonValue element : values->children()) {
      double number = 0;
      if (!read(element, number, findings)) return weights;
      weights.values.push_back(static_cast<float>(number));
      if (std::isfinite(weights.values.back())) continue;
      findings.add(element.begin_offset(), "number", fmt::format("weight {} is too large", element.text()));
      return weights;
    }
    // The product of two counts can overflow, unlike that of counts up to the number of values.
    const std::size_t size = weights.values.size();
    if (std::max(weights.rows, weights.columns) > size || weights.rows * weights.columns != size)
      findings.add(values->begin_offset(), "weight-count",
                   fmt::format("the weights '{}' must have {} x {} values, but have {}", weights.name, weights.rows,
                               weights.columns, size),
                   "the file is damaged or cut short: write it again with `trainyard train`");
  }
  reader.check_unknown_keys();
  return weights;
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + json_string(text);
  return "[" + out + "]";
}

}  // namespace

LearnedPolicy read_policy(const std::filesystem::path& path) {
  return parse_policy(read_input(path), input_name(path));
}

LearnedPolicy parse_policy(std::string_view text, const std::string& name) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  LearnedPolicy policy;
  if (root && check_format(*root, kPolicyFormat, findings)) {
    ObjectReader reader{*root, "a policy", findings};
    reader.get("format");
    if (const auto placer = reader.required("placer"))
      if (read(*placer, policy.placer, findings) && !is_learned_placer(policy.placer)) {
        const auto known = learned_placer_names();
        const std::vector<std::string> names(known.begin(), known.end());
        const std::string meant = did_you_mean(policy.placer, names);
        findings.add(
            placer->begin_offset(), "unknown-placer",
            fmt::format("'{}' is not a placer that learns a policy", policy.placer),
            fmt::format("{}{}placers that learn: {}", meant, meant.empty() ? "" : " ", fmt::join(names, ", ")));
      }
    if (const auto devices = reader.required("devices")) read(*devices, policy.devices, findings);
    policy.grouping.most = count(reader.required("groups"), "groups", findings);
    policy.grouping.heaviest = 0;
    if (const auto heaviest = reader.get("heaviest_group")) {
      if (read(*heaviest, policy.grouping.heaviest, findings) && !(policy.grouping.heaviest >= 0))
        findings.add(heaviest->begin_offset(), "range", "\"heaviest_group\" is negative", "give 0 for no limit");
    }
    if (const auto value = reader.get("trained", JsonKind::object)) {
      ObjectReader trained{*value, "\"trained\"", findings};
      if (const auto graphs = trained.get("graphs")) read(*graphs, policy.graphs, findings);
      policy.cluster = trained.text("cluster");
      if (const auto seed = trained.get("seed")) read_seed(*seed, policy.seed, findings);
      policy.updates = count(trained.get("updates"), "updates", findings);
      policy.episodes = count(trained.get("episodes"), "episodes", findings);
      trained.check_unknown_keys();
    }
    if (const auto weights = reader.required("weights", JsonKind::array))
      for (const JsonValue element : weights->children()) policy.weights.push_back(read_weights(element, findings));
    if (policy.grouping.most == 0 && findings.empty())
      findings.add(root->begin_offset(), "range", "\"groups\" is 0", "a policy places at least one group");
    reader.check_unknown_keys();
  }
  findings.raise_if_any();
  return policy;
}

void write_policy(const LearnedPolicy& policy, std::ostream& out) {
  out << fmt::format("{{\"format\": \"{}\", \"placer\": {}, \"devices\": {}, \"groups\": {}, \"heaviest_group\": {},\n",
                     kPolicyFormat, json_string(policy.placer), json_list(policy.devices), policy.grouping.most,
                     policy.grouping.heaviest);
  out << fmt::format(
      " \"trained\": {{\"graphs\": {}, \"cluster\": {}, \"seed\": {}, \"updates\": {}, \"episodes\": {}}},\n",
      json_list(policy.graphs), json_string(policy.cluster), policy.seed, policy.updates, policy.episodes);
  out << " \"weights\": [";
  for (std::size_t i = 0; i < policy.weights.size(); ++i) {
    const LearnedPolicy::Weights& weights = policy.weights[i];
    out << (i ? ",\n  " : "\n  ");
    // The shortest decimals that read back as the same floats.
    out << fmt::format("{{\"name\": {}, \"rows\": {}, \"columns\": {}, \"values\": [{}]}}", json_string(weights.name),
                       weights.rows, weights.columns, fmt::join(weights.values, ", "));
  }
  out << "]}\n";
}

}  // namespace trainyard
