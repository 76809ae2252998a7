#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "console.hpp"

namespace trainyard::program {

/// A file that a run writes. An empty path: not asked for; "-" is standard output.
struct Output {
  std::string path = {};
  std::string option = {};  // that names it: "--trace"

  explicit operator bool() const { return !path.empty(); }
};

/// Throws UsageError where an output is one of the inputs or another output, InputError where one cannot be written.
/// Leaves no file.
void check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& inputs);

/// Throws UsageError where the name says another format than the extension, "json": the wrong program would open it.
void check_extension(const Output& output, const std::string& extension);

/// The writer of an output, and a hint for who reads that it was written ("wrote page.html (open it in any browser)").
struct Writing {
  const Output& to;
  std::function<void(std::ostream&)> write;
  std::string hint = {};
};

/// Writes those that were asked for and prints the result: all of them, or none. Then says so.
void write_outputs(const std::vector<Writing>& writings, std::string_view result, Console& console);

}  // namespace trainyard::program
