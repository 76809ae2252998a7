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

/// The results of a sweep as files in a folder. Each writer (a process, a rank) appends finished rows to a journal of
/// its own, one line a write: what was appended before a kill, at whatever moment, is there afterwards, and a line that
/// was cut short is dropped by the next to open the folder. finish() makes the files that people read from the
/// journals.
///
///     sweep.json           which study: its name, number of rows, digest
///     journal-0.log, ...   rows in the order in which they ended: row, seconds, result
///     results.jsonl        results by row, one JSON object a line
///     results.csv          the same as a table
///     times.csv            wall-clock seconds of each row: the only file that differs from run to run
///     index.html           the results as curves
class SweepFolder {
 public:
  /// The rows that there are, of all of the study, and those that have an "error" in place of an answer.
  struct Count {
    std::uint64_t rows = 0, of = 0, errors = 0;
    std::string first_error = {};  // "row 2: ..."
  };

  enum class Open { fresh, resume };

  /// Locks the folder as writer 0, or joins writer 0's folder as another one, once that has opened it. Throws
  /// InputError: "sweep-exists" where there are results and they are not to be resumed, "other-study" where they are
  /// of another one, "no-sweep" where they are of nobody knows which (journals without sweep.json), "sweep-runs" where
  /// another process writes there, "file".
  SweepFolder(const std::filesystem::path& folder, const Study& study, Open open, std::size_t writer = 0);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

  /// Whether the row was in a journal when the folder was opened.
  bool done(std::uint64_t row) const;
  std::uint64_t done_count() const;

  /// Appends a row, from any thread. `result` is one JSON object without newlines. Throws InputError ("file"), also for
  /// a full disk.
  void append(std::uint64_t row, double seconds, std::string_view result);

  /// Reads all journals and writes the other files, each whole or not at all. Throws InputError ("file"; "two-results"
  /// where journals have different results of one row).
  Count finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The journals of several folders of one study (shards) as one fresh folder, which is finished. Throws InputError
/// ("no-sweep", "other-study", "two-results", "sweep-exists", "file"); the folder then holds no sweep.
SweepFolder::Count merge_sweeps(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& to);

}  // namespace trainyard
