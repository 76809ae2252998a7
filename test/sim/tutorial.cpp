#include <doctest/doctest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sim/program.hpp"

using namespace trainyard::test;

namespace {

/// A command of the page and the output lines below it, without their indentation.
struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

std::vector<Shown> tutorial_commands() {
  std::vector<Shown> all;
  std::istringstream page{read_text(source_dir() / "sim" / "TUTORIAL.md")};
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("    $ "))
      all.push_back({line.substr(6), {}});
    else if (line.starts_with("    ") && !all.empty())
      all.back().lines.push_back(line.substr(4));
  }
  return all;
}

/// Replaces measurements of this machine: the processor's name, and each number with its unit.
std::string without_measurements(const std::string& line) {
  static const std::regex number{"[-+]?[0-9][0-9,.]*( (ns|us|ms|s|%))?"}, processor{"measured on .*:"};
  return std::regex_replace(std::regex_replace(line, processor, "measured on #:"), number, "#");
}
/// Removes search times, which depend on the machine, and microseconds of results and gaps below 0.1 %, which are below
/// a thousandth of these steps and depend on the installed solvers (METIS, SCOTCH, CBC and Clp give other candidates).
/// The rest of a comparison is deterministic.
std::string without_search(const std::string& line) {
  static const std::regex search{" +(search|[0-9.]+ (ns|us|ms|s))$"}, microseconds{" +[0-9.]+ us"}, gap{"0[.]0[0-9] %"};
  const std::string wide = std::regex_replace(line, gap, "0.0# %");
  if (!line.starts_with(" ")) return wide;
  return std::regex_replace(std::regex_replace(wide, search, ""), microseconds, " # us");
}

bool is_left_out(const std::string& line) { return line == "..." || line == " ..."; }

}  // namespace

TEST_CASE("the tutorial's commands print what it shows, those that measure but for their numbers") {
  if (is_sanitized()) return report_skipped("takes minutes under sanitizers, which see the verbs in other tests");
  const TemporaryFolder folder;
  const std::string program = (build_dir() / "sim" / "trainyard").string();
  std::size_t compared = 0;
  for (const auto& [typed, lines] : tutorial_commands()) {
    const std::string command = typed;  // clang 14 captures no structured binding
    INFO(command);
    REQUIRE(command.starts_with("trainyard "));
    const std::string line_of_shell = "cd '" + folder.path().string() + "' && " + program + command.substr(9);
    auto run = run_command(line_of_shell);
    // Links measured beside other work may be far from their fit. The page's next commands then use what was measured.
    if (run.error.find("error[bad-fit]") != std::string::npos) run = run_command(line_of_shell + " --accept");
    INFO(run.error);
    // If other work takes the cores all the time, no sample is good enough to calibrate.
    if (run.exit_code != 0 && run.error.find("no good sample") != std::string::npos)
      return report_skipped("other work takes the cores");
    const bool runs = command.starts_with("trainyard validate");  // "fail" and "inconclusive" are valid answers
    CHECK((run.exit_code == 0 || (runs && (run.exit_code == 1 || run.exit_code == 5))));
    const bool measures =
        runs || command.find("profile") != std::string::npos || command.find("--costs") != std::string::npos;
    const auto seen = [&](const std::string& line) {
      return measures ? without_measurements(line) : without_search(line);
    };
    std::vector<std::string> printed;
    std::istringstream output{run.output};
    for (std::string line; std::getline(output, line);)
      if (!line.empty()) printed.push_back(seen(line));
    std::size_t next = 0;
    bool gap = false;
    for (const std::string& line : lines) {
      if (is_left_out(line)) {
        gap = true;
        continue;
      }
      const std::string shown = seen(line);
      if (measures && shown.starts_with("a step on")) continue;  // on a busy machine no step may count
      // Measured values, and which steps were dropped and why, vary from run to run; a busy machine prints one more
      // line.
      const auto same = [&](const std::string& own) {
        return own == shown || (runs && own.substr(0, 10) == shown.substr(0, 10));
      };
      gap |= runs;
      std::size_t at = next;
      while (gap && at < printed.size() && !same(printed[at])) ++at;
      INFO("the page: ", shown);
      INFO("printed:  ", at < printed.size() ? printed[at] : std::string{"(nothing)"});
      CHECK((at < printed.size() && same(printed[at])));
      ++compared;
      next = at + 1;
      gap = false;
    }
  }
  CHECK(compared > 30);
}

TEST_CASE("the manual is a man page that groff reads without a warning") {
  if (run_command("command -v groff").exit_code != 0) return report_skipped("groff is not installed");
  const auto made =
      run_command("python3 '" + (source_dir() / "sim" / "man_page.py").string() + "' '" +
                  (source_dir() / "sim" / "MANUAL.md").string() + "' 0.1.0 | groff -man -Tutf8 -Kutf8 -P-cbu -ww");
  CHECK(made.exit_code == 0);
  CHECK(made.error.empty());
  for (const char* part : {"SYNOPSIS", "EXIT CODES", "trainyard compare alexnet"}) CHECK(contains(made.output, part));
}
