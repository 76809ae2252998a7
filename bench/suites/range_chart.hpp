#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trainyard::bench {

/// Chart of the spread of numbers, one row each on a common scale: a dot at the median (the upper one of two), a line
/// from the minimum to the maximum, and a hollow mark at the published number, if any.
struct RangeChart {
  struct Row {
    std::string label;
    std::vector<double> values;  // at least one
    std::optional<double> published = {};
  };
  std::string title;  // names the numbers
  std::vector<Row> rows = {};
};

/// A self-contained HTML page with the charts.
std::string chart_page(const std::string& title, const std::vector<RangeChart>& charts);

}  // namespace trainyard::bench
