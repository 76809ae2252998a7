#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainyard {

/// The results of a sweep as curves on one self-contained HTML page: a panel for each value of one key, a curve for
/// each value of another, and medians over the remaining keys. Axes, curves and panels are selected on the page.
class SweepPage {
 public:
  /// Starts the page of a study with `rows` rows.
  SweepPage(std::string study, std::uint64_t rows);

  /// Adds a result. Failed results, and those after the first 50,000, are only counted.
  void add(const nlohmann::ordered_json& result);
  void write(std::ostream& out) const;

 private:
  std::string study_;
  std::uint64_t of_, rows_ = 0, failed_ = 0, drawn_ = 0;
  std::vector<std::string> columns_;
  std::string data_;  // rows as JSON arrays, by column
};

}  // namespace trainyard
