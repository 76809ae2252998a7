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

/// Options shared by all verbs.
struct ConsoleOptions {
  bool json = false, quiet = false, no_progress = false;
  Color color = Color::automatic;
  bool output_on_stdout = false;  // an output of the run is named "-"
};

/// Prints results to standard output, everything else to standard error.
///
/// Colour is decided by --color, then NO_COLOR, then CLICOLOR_FORCE, then whether the stream is a terminal (and TERM is
/// not "dumb"). -q silences notes, warnings and progress. --no-progress, TERM=dumb, CI=true, and a standard error that
/// is no terminal also silence progress. Control characters in names are shown as '?' (core/printable.hpp). With --json
/// the only output is one object on standard output, {"errors": [...]} for an error, and nothing is written to standard
/// error.
class Console {
 public:
  /// Throws UsageError if both --json and an output named "-" claim standard output.
  explicit Console(const ConsoleOptions& options);
  /// For errors before the command line is parsed: only looks for --json among the words.
  explicit Console(const std::vector<std::string>& words);

  bool json() const { return json_; }
  /// Colours, and the width of the terminal that shows the results: COLUMNS if it is a number, else the terminal's own
  /// width; 0 without a terminal. Widths below 60 count as 60.
  TextFormat format() const;
  bool shows_progress() const { return progress_; }

  /// Prints the result and checks that it was written; throws InputError ("file") otherwise. On a terminal long lines
  /// are wrapped if `breaks_lines` (false for scripts). Prints nothing if an output of the run goes to standard output.
  void print(std::string_view text, bool breaks_lines = true);
  /// Prints a note such as "wrote graph.json": one line on standard error.
  void note(std::string_view text);
  /// Prints "warning: ..." on standard error; also keeps it for the JSON object.
  void warn(std::string_view text);
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Prints an error in full: text on standard error, or the JSON object.
  void error(const InputError& error);
  void error(const std::string& code, const std::string& message, const std::string& help);
  /// Prints the explanation of exit code 1. --json silences it, -q does not.
  void complain(const InputError& error);

  /// Redraws one line on a terminal, after the text of at_work(). An empty text clears it.
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
