#include "trainyard/io/foreign/pipedream_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/findings.hpp"

namespace trainyard {
namespace {

constexpr std::string_view kSeparator = " -- ";
constexpr double kLargestNumber = 0x1p62;

class LayerProfileReader {
 public:
  LayerProfileReader(std::string_view text, const std::string& name) : text_(text), findings_(name, text) {
    profile_.name = name;
  }

  LayerProfile read() {
    std::size_t begin = 0;
    while (begin < text_.size() && !findings_.full()) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      std::string_view line = text_.substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      const std::string_view after_spaces = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      // One of DAPPLE's profiles has blanks instead of the tab.
      if (after_spaces.starts_with('\t'))
        edges_.push_back(after_spaces.substr(1));
      else if (line.starts_with(' ') && split(line, kSeparator).size() == 2)
        edges_.push_back(after_spaces);
      else if (line.find_first_not_of(" \t") != std::string_view::npos)
        read_layer(line);
      begin = end + 1;
    }
    for (const std::string_view line : edges_)
      if (!findings_.full()) read_edge(line);
    if (profile_.layers.empty() && findings_.empty())
      findings_.add(0, "empty-profile", "the file names no layer",
                    "a layer is a line 'node1 -- TYPE -- forward_compute_time=..., backward_compute_time=..., "
                    "activation_size=..., parameter_size=...'");
    findings_.raise_if_any();
    return std::move(profile_);
  }

 private:
  std::size_t offset(std::string_view part) const { return static_cast<std::size_t>(part.data() - text_.data()); }

  static std::vector<std::string_view> split(std::string_view text, std::string_view by) {
    std::vector<std::string_view> parts;
    for (;;) {
      const std::size_t at = text.find(by);
      parts.push_back(text.substr(0, at));
      if (at == std::string_view::npos) return parts;
      text.remove_prefix(at + by.size());
    }
  }

  void read_layer(std::string_view line) {
    const auto parts = split(line, kSeparator);
    if (parts.size() < 3)
      return findings_.add(offset(line), "profile-line", "this is neither a layer nor an edge",
                           "a layer has three parts with ' -- ' between them, an edge begins with a tab");
    ProfiledLayer layer{.name = std::string{parts[0]}, .type = std::string{parts[1]}};
    if (!index_.try_emplace(layer.name, profile_.layers.size()).second)
      findings_.add(offset(line), "duplicate-name", fmt::format("layer '{}' is listed twice", layer.name), "keep one");
    const std::string_view numbers = parts[2];
    layer.forward = milliseconds(numbers, "forward_compute_time");
    layer.backward = milliseconds(numbers, "backward_compute_time");
    layer.activations = bytes(numbers, "activation_size");
    layer.parameters = bytes(numbers, "parameter_size");
    profile_.layers.push_back(std::move(layer));
  }

  void read_edge(std::string_view line) {
    const auto ends = split(line, kSeparator);
    if (ends.size() != 2)
      return findings_.add(offset(line), "profile-line", "an edge must name two layers",
                           "write it as 'node1 -- node2'");
    const auto from = layer(ends[0]), to = layer(ends[1]);
    if (from && to && !joined_.emplace(*from, *to).second)
      return findings_.add(offset(line), "duplicate-name", fmt::format("the edge '{}' is listed twice", line),
                           "keep one");
    if (from && to) profile_.edges.emplace_back(*from, *to);
  }

  std::optional<std::size_t> layer(std::string_view name) {
    const auto at = index_.find(name);
    if (at != index_.end()) return at->second;
    std::vector<std::string> names;
    for (const ProfiledLayer& each : profile_.layers) names.push_back(each.name);
    findings_.add(offset(name), "unknown-layer", fmt::format("there is no layer '{}'", name),
                  did_you_mean(name, names));
    return std::nullopt;
  }

  Nanoseconds milliseconds(std::string_view numbers, std::string_view key) {
    return nanoseconds_from_seconds(number(numbers, key) * 1e-3);
  }
  Bytes bytes(std::string_view numbers, std::string_view key) {
    return Bytes{static_cast<std::int64_t>(std::floor(number(numbers, key) + 0.5))};
  }

  /// The value after "key=": one number, or the sum of a list "[a; b]".
  double number(std::string_view numbers, std::string_view key) {
    for (const std::string_view field : split(numbers, ", ")) {
      if (!field.starts_with(key) || field.size() == key.size() || field[key.size()] != '=') continue;
      std::string_view value = field.substr(key.size() + 1);
      while (value.ends_with(' ')) value.remove_suffix(1);
      if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
      double sum = 0;
      for (const std::string_view each : split(value, "; ")) sum += one_number(each, key);
      if (sum >= kLargestNumber)
        findings_.add(offset(value), "number", fmt::format("the sum of {} is 2^62 or more", key));
      return std::min(sum, kLargestNumber);
    }
    findings_.add(offset(numbers), "profile-line", fmt::format("the layer has no {}", key));
    return 0;
  }

  double one_number(std::string_view word, std::string_view key) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc{} && end == word.data() + word.size() && value >= 0 && value < kLargestNumber) return value;
    findings_.add(offset(word), "number", fmt::format("{}: '{}' is not a number from 0 to 2^62", key, word));
    return 0;
  }

  std::string_view text_;
  detail::FindingList findings_;
  LayerProfile profile_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::vector<std::string_view> edges_;
  std::set<std::pair<std::size_t, std::size_t>> joined_;
};

}  // namespace

LayerProfile parse_pipedream_profile(std::string_view text, const std::string& name) {
  return LayerProfileReader{text, name}.read();
}

LayerProfile read_pipedream_profile(const std::filesystem::path& path) {
  return parse_pipedream_profile(read_input(path), input_name(path));
}

LayerProfile without_inputs(const LayerProfile& profile) {
  const std::size_t count = profile.layers.size();
  std::vector<bool> read_from(count, false), reads(count, false), out(count, false);
  for (const auto& [from, to] : profile.edges) read_from[from] = reads[to] = true;
  for (std::size_t i = 0; i < count; ++i)
    out[i] = (!reads[i] && profile.layers[i].type.starts_with("Input")) ||
             (!read_from[i] && profile.layers[i].type.starts_with("__getitem__"));
  LayerProfile rest{.name = profile.name, .layers = {}};
  std::vector<std::size_t> number(count);
  for (std::size_t i = 0; i < count; ++i) {
    number[i] = rest.layers.size();
    if (!out[i]) rest.layers.push_back(profile.layers[i]);
  }
  for (const auto& [from, to] : profile.edges)
    if (!out[from] && !out[to]) rest.edges.emplace_back(number[from], number[to]);
  return rest;
}

Graph profile_graph(const LayerProfile& profile) {
  const std::size_t count = profile.layers.size();
  std::vector<OpSpec> forward(count), backward(count);
  const auto type = [&](std::size_t i) { return profile.layers[i].type.substr(0, profile.layers[i].type.find('(')); };
  for (std::size_t i = 0; i < count; ++i) {
    const ProfiledLayer& layer = profile.layers[i];
    forward[i] = {.name = layer.name,
                  .type = type(i),
                  .layer = layer.name,
                  .colocate = layer.name,
                  .parameter_bytes = layer.parameters,
                  .times = {{"gpu", layer.forward}},
                  .outputs = {{layer.name, layer.activations}}};
    backward[i] = {.name = layer.name + ".backward",
                   .type = type(i) + "Grad",
                   .phase = Phase::backward,
                   .layer = layer.name,
                   .colocate = layer.name,
                   .times = {{"gpu", layer.backward}},
                   .inputs = {layer.name}};
  }
  for (const auto& [from, to] : profile.edges) {
    const std::string& made = profile.layers[from].name;
    const std::string gradient = fmt::format("{}.gradient-of-{}", profile.layers[to].name, made);
    forward[to].inputs.push_back(made);
    backward[to].inputs.push_back(made);
    backward[to].outputs.push_back({gradient, profile.layers[from].activations});
    backward[from].inputs.push_back(gradient);
  }
  GraphBuilder builder{profile.name};
  for (OpSpec& op : forward) builder.add(std::move(op));
  for (std::size_t i = count; i-- > 0;) builder.add(std::move(backward[i]));
  return std::move(builder).build();
}

}  // namespace trainyard
