#include "console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "trainyard/core/printable.hpp"
#include "trainyard/io/error_text.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_terminal(int descriptor) { return isatty(descriptor) == 1 && environment("TERM") != "dumb"; }

/// Width in characters; 0 without a terminal.
std::size_t terminal_width(int descriptor) {
  const std::string_view columns = environment("COLUMNS");
  std::size_t width = 0;
  const auto [end, error] = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (error == std::errc{} && end == columns.data() + columns.size() && width > 0) return width;
  winsize size{};
  return isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool wants_color(Color choice, int descriptor) {
  if (choice != Color::automatic) return choice == Color::always;
  if (!environment("NO_COLOR").empty()) return false;
  const std::string_view force = environment("CLICOLOR_FORCE");
  return (!force.empty() && force != "0") || is_terminal(descriptor);
}

}  // namespace

Console::Console(const ConsoleOptions& options)
    : json_(options.json),
      quiet_(options.quiet || options.json),
      progress_(!quiet_ && !options.no_progress && is_terminal(STDERR_FILENO) && environment("CI") != "true"),
      prints_(!options.output_on_stdout),
      color_output_(wants_color(options.color, STDOUT_FILENO)),
      color_error_(wants_color(options.color, STDERR_FILENO)) {
  if (json_ && options.output_on_stdout)
    throw UsageError("--json and an output named '-' both write to standard output", "name a file");
}

Console::Console(const std::vector<std::string>& words) : color_error_(wants_color(Color::automatic, STDERR_FILENO)) {
  for (const std::string& word : words) json_ = json_ || word == "--json";
}

void Console::print(std::string_view text, bool breaks_lines) {
  progress("");
  if (!prints_) return;
  const std::size_t width = json_ || !breaks_lines ? 0 : format().width;
  errno = 0;
  const std::string shown = json_ ? std::string{text} : printable_lines(text, color_output_);
  if (width == 0)
    std::cout << shown;
  else  // wraps lines that no table or paragraph has fitted
    for (std::size_t at = 0, end = 0; at < shown.size(); at = end + 1) {
      end = std::min(shown.find('\n', at), shown.size());
      const std::string_view line = std::string_view{shown}.substr(at, end - at);
      const bool fits = display_width(line) <= width || line.find('\033') != std::string_view::npos;
      std::cout << (fits ? std::string{line} + (end < shown.size() ? "\n" : "") : wrapped(line, width));
    }
  std::cout << std::flush;
  if (!std::cout) refuse("file", std::string{"cannot write to standard output: "} + std::strerror(errno), "");
}

void Console::note(std::string_view text) {
  if (quiet_) return;
  progress("");
  std::cerr << printable(text) << '\n';
}

void Console::warn(std::string_view text) {
  warnings_.emplace_back(text);
  if (quiet_) return;
  progress("");
  std::cerr << (color_error_ ? "\033[1;33mwarning\033[0m: " : "warning: ") << printable(text) << '\n';
}

void Console::error(const InputError& error) {
  if (json_)
    std::cout << error_json(error) << std::flush;
  else
    complain(error);
}

void Console::error(const std::string& code, const std::string& message, const std::string& help) {
  error(InputError{Finding{.code = code, .message = message, .help = help}});
}

void Console::complain(const InputError& error) {
  if (json_) return;
  progress("");
  std::cerr << error_text(error, {.color = color_error_});
}

TextFormat Console::format() const {
  constexpr std::size_t kLeastWidth = 60;
  TextFormat format{.color = color_output_, .width = terminal_width(STDOUT_FILENO)};
  if (format.width > 0) format.width = std::max(format.width, kLeastWidth);
  return format;
}

void Console::progress(std::string_view text) {
  if (!progress_ || (text.empty() && progress_width_ == 0)) return;
  std::string line = printable(text);
  if (!text.empty() && !at_work_.empty()) line = at_work_ + ": " + line;
  // A longer line would wrap, and not be cleared.
  if (const std::size_t width = terminal_width(STDERR_FILENO); width > 0) line = shortened(line, width - 1);
  std::cerr << '\r' << std::string(progress_width_, ' ') << '\r' << line << std::flush;
  progress_width_ = display_width(line);
}

void Console::at_work(const std::string& what) {
  at_work_.clear();
  progress(what);
  at_work_ = printable(what);
}

}  // namespace trainyard::program
