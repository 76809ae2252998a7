#pragma once

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace trainyard::test {

/// The top of the source tree, from TRAINYARD_SOURCE_DIR (set by `meson test`), else the working directory.
std::filesystem::path source_dir();
/// The top of the build tree, from TRAINYARD_BUILD_DIR, else `build` in the source tree.
std::filesystem::path build_dir();
/// Reference answers that do not ship with the project: $TRAINYARD_REFERENCE_DATA / `relative`, where both exist.
std::optional<std::filesystem::path> reference_data(const std::string& relative);
/// Under sanitizers, which take 40 times as long for searches, and reserve terabytes of addresses (.ci/run tells).
bool is_sanitized();
/// How many of `usual` random instances a test looks at: all, or a tenth (rounded up) under sanitizers. `usual` may
/// also be how many of them a test expects to meet a case.
template <std::integral Count>
Count rounds(Count usual) {
  return is_sanitized() ? (usual + 9) / 10 : usual;
}
/// Every how many cases of a list a test looks at one: `usual`, or five times that under sanitizers.
inline std::size_t stride(std::size_t usual) { return is_sanitized() ? 5 * usual : usual; }
/// Tells the runner that the current test case did not run, and why. Return from the test case after it.
void report_skipped(const std::string& why);
/// A new empty folder, removed when the object goes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};
std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, const std::string& text);
/// `text` with `by` in place of the first `what`, which it has.
std::string replaced(std::string text, const std::string& what, const std::string& by);

/// What a command did, run by the shell. Standard input is empty.
struct CommandResult {
  int exit_code = 0;
  std::string output, error;
};
CommandResult run_command(const std::string& command);

}  // namespace trainyard::test
