#pragma once

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::test {

/// The top of the source tree, from TRAINYARD_SOURCE_DIR (set by `meson test`), else the working directory.
std::filesystem::path source_dir();
/// The top of the build tree, from TRAINYARD_BUILD_DIR, else `build` in the source tree.
std::filesystem::path build_dir();
/// Reference answers that are not part of the project: $TRAINYARD_REFERENCE_DATA / `relative`, if both exist.
std::optional<std::filesystem::path> reference_data(const std::string& relative);
/// Whether this is a sanitized build (set by .ci/run). Sanitizers slow searches 40-fold and reserve terabytes of
/// address space.
bool is_sanitized();
/// The number of random instances to test: all `usual`, or a tenth (rounded up) under sanitizers. `usual` may also be
/// the number of instances that a test expects to meet a case.
template <std::integral Count>
Count rounds(Count usual) {
  return is_sanitized() ? (usual + 9) / 10 : usual;
}
/// The stride at which a test visits a list of cases: `usual`, or five times that under sanitizers.
inline std::size_t stride(std::size_t usual) { return is_sanitized() ? 5 * usual : usual; }
/// Reports to the runner that the current test case was skipped, and why. Return from the test case afterwards.
void report_skipped(const std::string& why);
/// A new empty folder, removed when the object is destroyed.
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
/// Whether `part` stands in `text`.
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }
/// The number of times that `part` stands in `text`, without overlaps.
std::size_t occurrences(std::string_view text, std::string_view part);
/// `text` with the first `what`, which must occur, replaced by `by`.
std::string replaced(std::string text, const std::string& what, const std::string& by);

/// The result of a shell command that ran with empty standard input.
struct CommandResult {
  int exit_code = 0;
  std::string output, error;
};
CommandResult run_command(const std::string& command);

}  // namespace trainyard::test
