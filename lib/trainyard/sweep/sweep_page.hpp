#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainyard {

/// The results of a sweep as curves on one HTML page that needs no network: a panel for each value of one key, a curve
/// for each value of another, medians over the rest; axes, curves and panels are chosen on the page.
class SweepPage {
 public:
  /// The page of a study with this many rows.
  SweepPage(std::string study, std::uint64_t rows);

  /// One result. Failed ones are counted only, and so is what comes after the first 50,000.
  void add(const nlohmann::ordered_json& result);
  void write(std::ostream& out) const;

 private:
  std::string study_;
  std::uint64_t of_, rows_ = 0, failed_ = 0, drawn_ = 0;
  std::vector<std::string> columns_;
  std::string data_;  // rows as JSON arrays, by column
};

}  // namespace trainyard
