#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "console.hpp"

namespace trainyard::program {

/// The files that one run of the program writes: all of them, or none. Each is named at the start, so that a name that
/// cannot be written is known before the work begins.
class Outputs {
 public:
  /// The files that the run reads: an output may not be one of them.
  void reads(const std::string& path);
  /// Throws UsageError where the path is an input, or another output. Does nothing where it is empty.
  void writes(const std::string& path, const std::string& option, std::function<void(std::ostream&)> write,
              std::string hint = "");
  /// Whether one of them is "-".
  bool takes_standard_output() const;

  /// Checks that every file can be written: creates the temporaries and leaves nothing.
  void check() const;
  /// Writes all, then puts all in place, then says so ("wrote trace.json (drop it on ...)").
  void write_all(Console& console);

 private:
  struct Output {
    std::filesystem::path path;
    std::string option;
    std::function<void(std::ostream&)> write;
    std::string hint;
  };
  std::vector<std::filesystem::path> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace trainyard::program
