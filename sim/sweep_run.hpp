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

/// Where the rows of a study go, and which of them are run.
struct SweepOptions {
  std::string folder;
  bool resume = false;
  Shard shard;
  std::optional<unsigned> threads;

  /// --resume, --shard, --threads.
  void declare(OptionSet& set);
};

/// What a folder has, and how many rows it had before.
struct SweepCount : SweepFolder::Count {
  std::uint64_t before = 0;
};

/// ", 2 without an answer (first: ...)"; nothing where there are none.
std::string errors_text(const SweepFolder::Count& count);

/// The result of a row as one JSON object on one line; from any thread.
using RunRow = std::function<std::string(std::uint64_t row)>;

/// Runs the rows that are missing in the folder (SweepFolder), also from several ranks, and finishes it, unless
/// interrupted with those that are done. Nothing on ranks but the first.
std::optional<SweepCount> run_rows(const Study& study, const SweepOptions& options, const RunRow& run,
                                   Console& console);

}  // namespace trainyard::program
