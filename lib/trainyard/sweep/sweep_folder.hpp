#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/sweep/study.hpp"

namespace trainyard {

/// The results of a sweep as files in a folder. Each writer (a process or a rank) appends finished rows to a journal of
/// its own, one line per write. Rows appended before the process is killed are never lost; a truncated last line is
/// dropped when the folder is next opened. finish() makes the human-readable files from the journals.
///
///     sweep.json           the study: its name, number of rows, digest
///     journal-0.log, ...   rows in the order in which they finished: row, seconds, result
///     results.jsonl        results in the order of the rows, one JSON object per line
///     results.csv          the same results as a table
///     times.csv            wall-clock seconds of each row: the only file that differs from run to run
///     index.html           the results as curves
class SweepFolder {
 public:
  /// Number of finished rows, of rows in the study, and of rows with an "error" instead of an answer.
  struct Count {
    std::uint64_t rows = 0, of = 0, errors = 0;
    std::string first_error = {};  // "row 2: ..."
  };

  enum class Open { fresh, resume };

  /// Writer 0 locks the folder; other writers join it after writer 0 has opened it. Throws InputError: "sweep-exists"
  /// if the folder has results and `open` is fresh, "other-study" for results of another study, "no-sweep" for journals
  /// without sweep.json, "sweep-runs" if another process is writing there, "file".
  SweepFolder(const std::filesystem::path& folder, const Study& study, Open open, std::size_t writer = 0);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

  /// Whether a journal contained the row when the folder was opened.
  bool done(std::uint64_t row) const;
  std::uint64_t done_count() const;

  /// Appends a row; may be called from any thread. `result` is one JSON object without newlines. Throws InputError
  /// ("file"), for example if the disk is full.
  void append(std::uint64_t row, double seconds, std::string_view result);

  /// Reads all journals and writes the other files, each completely or not at all. Throws InputError: "file",
  /// "two-results" if the journals have different results for one row.
  Count finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Merges the journals of several folders of one study (shards) into a new folder, and finishes it. Throws InputError
/// ("no-sweep", "other-study", "two-results", "sweep-exists", "file"), after which the folder is not a sweep.
SweepFolder::Count merge_sweeps(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& to);

}  // namespace trainyard
