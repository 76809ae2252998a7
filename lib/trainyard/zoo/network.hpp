#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// An integer parameter of a network.
struct NetworkParameter {
  std::string name;
  std::int64_t value = 0;  // default
  std::int64_t least = 1, most = 1;
  std::string meaning;
};

/// Parameter values of one network: its defaults, and what a spec sets.
class NetworkArguments {
 public:
  NetworkArguments(std::string network, std::span<const NetworkParameter> parameters) : network_(std::move(network)) {
    for (const auto& parameter : parameters) values_.emplace_back(parameter.name, parameter.value);
  }

  const std::string& network() const { return network_; }

  /// Value of a parameter, which the network must have.
  std::int64_t operator[](std::string_view name) const;
  void set(std::string_view name, std::int64_t value);

 private:
  std::string network_;
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

/// A network that can be built by name.
struct Network {
  std::string name;     // "resnet50"
  std::string summary;  // one line: which variant exactly
  std::string source;   // the paper
  std::vector<NetworkParameter> parameters;
  Model (*build)(const NetworkArguments&) = nullptr;
};

}  // namespace trainyard
