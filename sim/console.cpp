#include "console.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

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

bool wants_color(const std::string& choice, int descriptor) {
  if (choice == "always") return true;
  if (choice == "never") return false;
  if (!environment("NO_COLOR").empty()) return false;
  const std::string_view force = environment("CLICOLOR_FORCE");
  return (!force.empty() && force != "0") || is_terminal(descriptor);
}

}  // namespace

Console::Console(const Arguments& arguments) : json_(arguments.json), quiet_(arguments.quiet || arguments.json) {
  static const std::array<std::string, 3> choices{"auto", "always", "never"};
  const std::string choice = arguments.color.empty() ? "auto" : one_of(arguments.color, choices, "--color");
  color_output_ = wants_color(choice, STDOUT_FILENO);
  color_error_ = wants_color(choice, STDERR_FILENO);
  progress_ = !quiet_ && !arguments.no_progress && is_terminal(STDERR_FILENO) && environment("CI") != "true";
}

Console::Console(const std::vector<std::string>& words) : color_error_(wants_color("auto", STDERR_FILENO)) {
  for (const std::string& word : words) json_ = json_ || word == "--json";
}

void Console::print(std::string_view text) {
  progress("");
  errno = 0;
  std::cout << text << std::flush;
  if (!std::cout)
    throw InputError(
        Finding{.code = "file", .message = std::string{"cannot write to standard output: "} + std::strerror(errno)});
}

void Console::note(std::string_view text) {
  if (quiet_) return;
  progress("");
  std::cerr << text << '\n';
}

void Console::warn(std::string_view text) {
  warnings_.emplace_back(text);
  if (quiet_) return;
  progress("");
  std::cerr << (color_error_ ? "\033[1;33mwarning\033[0m: " : "warning: ") << text << '\n';
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

void Console::progress(std::string_view text) {
  if (!progress_ || (text.empty() && progress_width_ == 0)) return;
  std::cerr << '\r' << std::string(progress_width_, ' ') << '\r' << text << std::flush;
  progress_width_ = display_width(text);
}

}  // namespace trainyard::program
