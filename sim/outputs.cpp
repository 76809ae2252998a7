#include "outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "interrupt.hpp"
#include "trainyard/io/output_file.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace fs = std::filesystem;
namespace {

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored, no_a, no_b;
  if (fs::equivalent(a, b, ignored)) return true;
  const fs::path to_a = fs::weakly_canonical(followed_links(a), no_a),
                 to_b = fs::weakly_canonical(followed_links(b), no_b);
  return !no_a && !no_b && to_a == to_b;
}

/// Whether the path is (or would be) a regular file. Several outputs may share a pipe, a terminal or /dev/null.
bool is_file(const fs::path& path) {
  std::error_code ignored;
  return path != "-" && !path.empty() && (!fs::exists(path, ignored) || fs::is_regular_file(path, ignored));
}

bool are_one_file(const fs::path& a, const fs::path& b) { return is_file(a) && is_file(b) && is_same_file(a, b); }

}  // namespace

void check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    for (const std::string& input : inputs)
      if (are_one_file(output->path, input))
        throw UsageError(fmt::format("{}: '{}' is an input of this run", output->option, output->path),
                         "give another name");
    for (auto other = outputs.begin(); other != output; ++other)
      if ((output->path == "-" && other->path == "-") || are_one_file(output->path, other->path))
        throw UsageError(fmt::format("{} and {} both write '{}'", other->option, output->option, output->path),
                         "give another name");
  }
  std::error_code ignored;
  for (const Output& output : outputs)
    if (is_file(output.path) || fs::is_directory(output.path, ignored))
      OutputFile{output.path};  // removed again without commit()
}

void check_extension(const Output& output, const std::string& extension) {
  static const std::vector<std::string> known{"json", "csv",  "tsv", "txt", "md",   "html", "htm",
                                              "toml", "yaml", "yml", "xml", "onnx", "stg",  "lp",
                                              "mzn",  "et",   "svg", "png", "pdf",  "xlsx"};
  std::string name = output.path;
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const std::size_t dot = name.find_last_of("./");
  if (dot == std::string::npos || name[dot] == '/') return;
  const std::string given = name.substr(dot + 1);
  const bool alike =
      given == extension || given + "l" == extension || (given == "txt" && extension != "json" && extension != "html");
  if (!alike && std::ranges::find(known, given) != known.end())
    throw UsageError(fmt::format("{}: '{}' is named as a .{} file, but the output is a .{} file", output.option,
                                 output.path, given, extension),
                     fmt::format("name it {}{}", name.substr(0, dot + 1), extension));
}

void write_outputs(const std::vector<Writing>& writings, std::string_view result, Console& console) {
  const InterruptGuard guard{InterruptGuard::Waits::to_the_end};  // an interrupt waits until the files are whole
  std::vector<OutputFile> files;
  for (const Writing& writing : writings) {
    if (!writing.to) continue;
    files.emplace_back(writing.to.path);
    writing.write(files.back().stream());
  }
  for (OutputFile& file : files) file.finish();
  console.print(result);
  for (OutputFile& file : files) file.commit();
  for (const Writing& writing : writings)
    if (is_file(writing.to.path))
      console.note(fmt::format("wrote {}{}", writing.to.path, writing.hint.empty() ? "" : " " + writing.hint));
}

}  // namespace trainyard::program
