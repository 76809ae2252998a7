#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "latest_made.hpp"
#include "trainyard/sweep/study.hpp"

namespace trainyard::program {

/// The valid keys of a study: "model", and the options of `trainyard place` on inputs and placement, without "--".
std::vector<std::string> study_keys();

/// Runs rows of a study, from any thread. Consecutive rows on one problem share it.
class RowRunner {
 public:
  /// The row's result as one JSON object on one line: row number and keys, then the facts that `place --json` reports.
  /// If there is no answer (such as an unknown model), "error" and "code" instead. Deterministic, except for rows with
  /// a time budget.
  std::string run(std::uint64_t index, const StudyRow& row);

  /// Notes of importers and calibrations, without duplicates.
  std::vector<std::string> notes() const { return {notes_.begin(), notes_.end()}; }

 private:
  struct Ground;
  using Words = std::vector<std::string>;
  Ground make_ground(const Words& words);

  LatestMade<Words, Ground> grounds_{16};
  std::mutex mutex_;  // guards notes_
  std::set<std::string> notes_;
};

}  // namespace trainyard::program
