#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/support.hpp"

namespace trainyard::test {

/// Problem of a graph of DOPPLER's `compute_graph/`. The file has a line with the number of nodes and inputs, three
/// lists (inputs, sources of edges, their ends), and a line for each node that is not an input: its time, and the time
/// of the transfer of its output to any device. Transfers do not wait for each other. With `distinct`, some ns are
/// added to each time, so that no two times are equal.
inline Problem doppler_problem(const std::filesystem::path& file, std::size_t devices, bool distinct = false) {
  std::istringstream lines{read_text(file)};
  std::vector<std::vector<std::int64_t>> numbers;
  for (std::string line; std::getline(lines, line);) {
    std::replace_if(
        line.begin(), line.end(), [](unsigned char c) { return std::isdigit(c) == 0; }, ' ');
    std::istringstream words{line};
    numbers.emplace_back();
    for (std::int64_t number = 0; words >> number;) numbers.back().push_back(number);
  }
  const std::size_t count = static_cast<std::size_t>(numbers[0][0]) - numbers[1].size();
  std::vector<OpSpec> ops(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "n" + std::to_string(i);
    const auto k = distinct ? static_cast<std::int64_t>(i) : 0;
    const std::int64_t time = numbers[4 + i][0] + 1000 * k * k + k;
    const std::int64_t bytes = numbers[4 + i][1] + (distinct ? k * k * k + 7 : 0);
    ops[i] = {.name = name, .times = {{"cpu", Nanoseconds{time}}}};
    ops[i].outputs.push_back({name + ".out", Bytes{bytes}});
  }
  for (std::size_t edge = 0; edge < numbers[2].size(); ++edge)
    ops[static_cast<std::size_t>(numbers[3][edge])].inputs.push_back("n" + std::to_string(numbers[2][edge]) + ".out");
  GraphBuilder builder{file.stem().string()};
  for (OpSpec& op : ops) builder.add(std::move(op));
  return Problem{std::move(builder).build(), make_cluster(full_mesh(devices, Sharing::none))};
}

}  // namespace trainyard::test
