#include "trainyard/zoo/zoo.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/zoo/catalogue.hpp"

namespace trainyard {

std::int64_t NetworkArguments::operator[](std::string_view name) const {
  const auto at = std::find_if(values_.begin(), values_.end(), [&](const auto& pair) { return pair.first == name; });
  assert(at != values_.end());
  return at->second;
}

void NetworkArguments::set(std::string_view name, std::int64_t value) {
  const auto at = std::find_if(values_.begin(), values_.end(), [&](const auto& pair) { return pair.first == name; });
  assert(at != values_.end());
  at->second = value;
}

void zoo::require_positions(std::int64_t seq, std::int64_t positions) {
  if (seq <= positions) return;
  refuse("range", fmt::format("seq={} is more than the {} positions that have an embedding", seq, positions),
         fmt::format("add positions={}", seq));
}

namespace {

std::vector<Network> all_networks() {
  std::vector<Network> all;
  for (const auto& some : {
           zoo::classic_networks(),     zoo::squeeze_networks(),  zoo::googlenet_networks(), zoo::inception_networks(),
           zoo::resnet_networks(),      zoo::densenet_networks(), zoo::mobilenet_networks(), zoo::nasnet_networks(),
           zoo::enas_networks(),        zoo::vit_networks(),      zoo::rnnlm_networks(),     zoo::nmt_networks(),
           zoo::transformer_networks(), zoo::bert_networks(),     zoo::gpt2_networks(),      zoo::gpt3_networks(),
           zoo::gshard_networks(),      zoo::llama_networks(),    zoo::deepseek_networks(),  zoo::t5_networks(),
           zoo::dlrm_networks(),
       })
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

/// Help such as "did you mean 'batch'? resnet50 takes batch, image, classes".
std::string suggestion(std::string_view given, const std::vector<std::string>& known, std::string_view introduction) {
  const std::optional<std::string> near = nearest_name(given, known);
  const std::string list = fmt::format("{} {}", introduction, fmt::join(known, ", "));
  return near ? fmt::format("did you mean '{}'? {}", *near, list) : list;
}

std::vector<std::string> names_of(const std::vector<NetworkParameter>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  return names;
}

const Network& require_network(std::string_view name, std::string_view spec) {
  if (name.empty()) {
    refuse("spec", fmt::format("'{}' names no network", spec),
           "start with a network's name, as in 'resnet50:batch=32'");
  }
  if (const Network* network = find_network(name)) return *network;
  std::vector<std::string> names;
  for (const auto& network : networks()) names.push_back(network.name);
  refuse("unknown-network", fmt::format("there is no network '{}'", name),
         suggestion(name, names, "the built-in networks are"));
}

class SpecReader {
 public:
  SpecReader(const Network& network, NetworkArguments& arguments) : network_(network), arguments_(arguments) {}

  /// Reads one "name=number" pair.
  void read(std::string_view pair) {
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return wrong("spec", fmt::format("'{}' is not of the form name=number", pair), example());
    const std::string name{pair.substr(0, equals)};
    const auto parameter = std::find_if(network_.parameters.begin(), network_.parameters.end(),
                                        [&](const auto& candidate) { return candidate.name == name; });
    if (parameter == network_.parameters.end()) {
      return wrong("unknown-parameter", fmt::format("{} has no parameter '{}'", network_.name, name),
                   suggestion(name, names_of(network_.parameters), network_.name + " takes"));
    }
    if (std::find(given_.begin(), given_.end(), name) != given_.end())
      return wrong("repeated-parameter", fmt::format("'{}' is given twice", name), "give it once");
    given_.push_back(name);
    read_number(*parameter, pair.substr(equals + 1));
  }

  void throw_findings() {
    if (!findings_.empty()) throw InputError(std::move(findings_));
  }

 private:
  void read_number(const NetworkParameter& parameter, std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string range = fmt::format("{} ({}) is a whole number from {} to {} (default {})", parameter.name,
                                          parameter.meaning, parameter.least, parameter.most, parameter.value);
    if (error == std::errc::invalid_argument || end != text.data() + text.size() || text.empty())
      return wrong("spec", fmt::format("{}={}: '{}' is not a whole number", parameter.name, text, text), range);
    if (error == std::errc::result_out_of_range || value < parameter.least || value > parameter.most)
      return wrong("range", fmt::format("{}={} is out of range", parameter.name, text), range);
    arguments_.set(parameter.name, value);
  }

  void wrong(const char* code, std::string message, std::string help) {
    if (findings_.size() >= kMostFindings) return;
    findings_.push_back({.code = code, .message = std::move(message), .help = std::move(help)});
  }

  std::string example() const {
    return fmt::format("write '{}:{}={}', with commas between parameters", network_.name,
                       network_.parameters.front().name, network_.parameters.front().value);
  }

  const Network& network_;
  NetworkArguments& arguments_;
  std::vector<std::string> given_;
  std::vector<Finding> findings_;
};

}  // namespace

std::span<const Network> networks() {
  static const std::vector<Network> all = all_networks();
  return all;
}

const Network* find_network(std::string_view name) {
  const auto all = networks();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Network& network) { return network.name == name; });
  return at == all.end() ? nullptr : &*at;
}

Model make_network(std::string_view spec) {
  const auto colon = spec.find(':');
  const Network& network = require_network(spec.substr(0, colon), spec);
  NetworkArguments arguments{network.name, network.parameters};
  if (colon != std::string_view::npos) {
    SpecReader reader{network, arguments};
    std::string_view rest = spec.substr(colon + 1);
    while (true) {
      const auto comma = rest.find(',');
      reader.read(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    reader.throw_findings();
  }
  Model model = network.build(arguments);
  model.name = std::string{spec};
  return model;
}

}  // namespace trainyard
