#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::program {

/// Text for people is at most this wide, where names allow.
inline constexpr std::size_t kTextWidth = 100;

/// Where a result goes (standard output), and everything else (standard error).
///
/// Colour: --color, then NO_COLOR, then CLICOLOR_FORCE, then whether the stream is a terminal (and TERM is not dumb).
/// Notes and progress are silenced by -q; progress also by --no-progress, TERM=dumb, CI=true, and where standard error
/// is no terminal. With --json the only output is one object on standard output: an error is {"errors": [...]} there,
/// and nothing is written to standard error.
class Console {
 public:
  /// Throws UsageError where --color has a value that it cannot have.
  explicit Console(const Arguments& arguments);
  /// Before the command line was read: only looks for --json among the words.
  explicit Console(const std::vector<std::string>& words);

  bool json() const { return json_; }
  bool color_output() const { return color_output_; }
  bool shows_progress() const { return progress_; }

  /// Writes the result and makes sure that it arrived; throws InputError ("file") where it did not.
  void print(std::string_view text);
  /// "wrote graph.json": one line on standard error.
  void note(std::string_view text);
  /// "warning: ..." on standard error; also kept for the JSON object.
  void warn(std::string_view text);
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// An error in full: text on standard error, or the JSON object.
  void error(const InputError& error);
  void error(const std::string& code, const std::string& message, const std::string& help);
  /// What -q does not silence and --json does: the explanation of exit code 1.
  void complain(const InputError& error);

  /// Redraws one line on a terminal; an empty text clears it.
  void progress(std::string_view text);

 private:
  bool json_ = false, quiet_ = false, progress_ = false;
  bool color_output_ = false, color_error_ = false;
  std::size_t progress_width_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace trainyard::program
