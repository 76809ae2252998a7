#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "console.hpp"

namespace trainyard::program {

/// An output file of a run. An empty path: not requested; "-": standard output.
struct Output {
  std::string path = {};
  std::string option = {};  // the option that names it: "--trace"

  explicit operator bool() const { return !path.empty(); }
};

/// Throws UsageError if an output is also an input or another output, InputError if one cannot be written. Leaves no
/// file behind.
void check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& inputs);

/// Throws UsageError if the name has the extension of another format than `extension` ("json").
void check_extension(const Output& output, const std::string& extension);

/// The writer of an output, and a hint after "wrote page.html", such as "(open it in any browser)".
struct Writing {
  const Output& to;
  std::function<void(std::ostream&)> write;
  std::string hint = {};
};

/// Writes the requested outputs and prints the result, all or nothing. Then notes the written files.
void write_outputs(const std::vector<Writing>& writings, std::string_view result, Console& console);

}  // namespace trainyard::program
