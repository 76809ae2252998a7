#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::program {

enum class Color : std::uint8_t { automatic, always, never };

/// The options that every verb has.
struct ConsoleOptions {
  bool json = false, quiet = false, no_progress = false;
  Color color = Color::automatic;
  bool output_on_stdout = false;  // an output of the run is "-"
};

/// Where a result goes (standard output), and everything else (standard error).
///
/// Colour: --color, then NO_COLOR, then CLICOLOR_FORCE, then whether the stream is a terminal (and TERM is not dumb).
/// Notes and progress are silenced by -q; progress also by --no-progress, TERM=dumb, CI=true, and where standard error
/// is no terminal. What names bring along that a terminal would obey is shown as '?' (core/printable.hpp). With --json
/// the only output is one object on standard output: an error is {"errors": [...]} there, and nothing is written to
/// standard error.
class Console {
 public:
  /// Throws UsageError where --json and an output both want standard output.
  explicit Console(const ConsoleOptions& options);
  /// Before the command line was read: only looks for --json among the words.
  explicit Console(const std::vector<std::string>& words);

  bool json() const { return json_; }
  /// Colours, and the width of the terminal that results go to: COLUMNS where that is a number, else the terminal's
  /// own; neither: there is no terminal. From 60 columns on, narrower ones count as 60.
  TextFormat format() const;
  bool shows_progress() const { return progress_; }

  /// Writes the result, long lines broken on a terminal unless they are a script's, and makes sure that it arrived;
  /// throws InputError ("file") where it did not. Nothing where an output of the run is on standard output.
  void print(std::string_view text, bool breaks_lines = true);
  /// "wrote graph.json": one line on standard error.
  void note(std::string_view text);
  /// "warning: ..." on standard error; also kept for the JSON object.
  void warn(std::string_view text);
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// An error in full: text on standard error, or the JSON object.
  void error(const InputError& error);
  void error(const std::string& code, const std::string& message, const std::string& help);
  /// The explanation of exit code 1, which --json silences and -q does not.
  void complain(const InputError& error);

  /// Redraws one line on a terminal, behind what is at work; an empty text clears it.
  void progress(std::string_view text);
  /// Shows the work in progress, "[2/34] resnet50: etf"; an empty text ends it.
  void at_work(const std::string& what);

 private:
  bool json_ = false, quiet_ = false, progress_ = false, prints_ = true;
  bool color_output_ = false, color_error_ = false;
  std::size_t progress_width_ = 0;
  std::string at_work_;
  std::vector<std::string> warnings_;
};

}  // namespace trainyard::program
