#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::bench {

/// Rows of numbers with their spread, one below the other on one scale: a dot at the median, a line from the least to
/// the most, and a hollow mark at the published number where there is one.
struct RangeChart {
  struct Row {
    std::string label;
    std::vector<double> values;  // at least one
    std::optional<double> published = {};
  };
  std::string title;  // what the numbers are
  std::vector<Row> rows = {};
};

/// The text where nothing of it is markup.
std::string html_text(std::string_view text);

/// A page of charts that needs no other file.
std::string chart_page(const std::string& title, const std::vector<RangeChart>& charts);

}  // namespace trainyard::bench
