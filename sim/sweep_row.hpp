#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "latest_made.hpp"
#include "trainyard/sweep/study.hpp"

namespace trainyard::program {

/// The keys of a study: "model", and the options of `trainyard place` that say what is placed and how, without "--".
std::vector<std::string> study_keys();

/// Runs rows of a study, from any thread; what follows each other on one problem shares it.
class RowRunner {
 public:
  /// The row's result as one JSON object on one line: its number and keys, then what `place --json` says of it; or
  /// "error" and "code" where there is no answer, as for a model that is not there. The same bytes whoever runs it, but
  /// for rows that search for a time.
  std::string run(std::uint64_t index, const StudyRow& row);

  /// Notes of importers and calibrations, each once.
  std::vector<std::string> notes() const { return {notes_.begin(), notes_.end()}; }

 private:
  struct Ground;
  using Words = std::vector<std::string>;
  Ground make_ground(const Words& words);

  LatestMade<Words, Ground> grounds_{16};
  std::mutex mutex_;  // of the notes
  std::set<std::string> notes_;
};

}  // namespace trainyard::program
