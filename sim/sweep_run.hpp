#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "console.hpp"
#include "option_set.hpp"
#include "trainyard/sweep/study.hpp"
#include "trainyard/sweep/sweep_folder.hpp"

namespace trainyard::program {

/// Every count-th row, from `first` on.
struct Shard {
  std::uint64_t first = 0, count = 1;
};

/// Folder of a study's results, and the selection of rows to run.
struct SweepOptions {
  std::string folder;
  bool resume = false;
  Shard shard;
  std::optional<unsigned> threads;

  /// --resume, --shard, --threads.
  void declare(OptionSet& set);
};

/// Counts of a folder, and its number of rows before this run.
struct SweepCount : SweepFolder::Count {
  std::uint64_t before = 0;
};

/// Suffix on rows that failed: ", 2 failed (first: ...)"; empty without errors.
std::string errors_text(const SweepFolder::Count& count);

/// Returns a row's result as one JSON object on one line. Called from any thread.
using RunRow = std::function<std::string(std::uint64_t row)>;

/// Runs the rows that the folder (SweepFolder) lacks, also across ranks, and finishes the folder. An interrupt keeps
/// the rows that are done. Returns nothing on ranks other than 0.
std::optional<SweepCount> run_rows(const Study& study, const SweepOptions& options, const RunRow& run,
                                   Console& console);

}  // namespace trainyard::program
