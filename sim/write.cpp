#include "write.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "interrupt.hpp"
#include "trainyard/io/output_file.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace fs = std::filesystem;
namespace {

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored) || fs::weakly_canonical(a, ignored) == fs::weakly_canonical(b, ignored);
}

/// A file of its own: not a pipe, a terminal or /dev/null, which several outputs may share.
bool is_file(const fs::path& path) {
  std::error_code ignored;
  return path != "-" && (!fs::exists(path, ignored) || fs::is_regular_file(path, ignored));
}

}  // namespace

void Outputs::reads(const std::string& path) { inputs_.emplace_back(path); }

void Outputs::writes(const std::string& path, const std::string& option, std::function<void(std::ostream&)> write,
                     std::string hint) {
  if (path.empty()) return;
  if (is_file(path)) {
    for (const fs::path& input : inputs_)
      if (is_file(input) && is_same_file(path, input))
        throw UsageError(fmt::format("{}: '{}' is an input of this run", option, path), "give another name");
  }
  for (const Output& other : outputs_)
    if ((path == "-" && other.path == "-") || (is_file(path) && is_file(other.path) && is_same_file(path, other.path)))
      throw UsageError(fmt::format("{} and {} both write '{}'", other.option, option, path), "give another name");
  outputs_.push_back({path, option, std::move(write), std::move(hint)});
}

bool Outputs::takes_standard_output() const {
  for (const Output& output : outputs_)
    if (output.path == "-") return true;
  return false;
}

void Outputs::check() const {
  std::error_code ignored;
  for (const Output& output : outputs_)
    if (is_file(output.path) || fs::is_directory(output.path, ignored))
      OutputFile{output.path};  // removed again without commit()
}

void Outputs::write_all(Console& console) {
  const InterruptGuard guard;  // an interrupt waits until the files are whole
  std::vector<OutputFile> files;
  for (const Output& output : outputs_) {
    files.emplace_back(output.path);
    output.write(files.back().stream());
  }
  for (OutputFile& file : files) file.commit();
  for (const Output& output : outputs_)
    if (is_file(output.path))
      console.note(fmt::format("wrote {}{}", output.path.string(), output.hint.empty() ? "" : " " + output.hint));
}

}  // namespace trainyard::program
