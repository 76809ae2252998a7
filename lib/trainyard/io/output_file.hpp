#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>

namespace trainyard {

/// Resolves the symbolic links of a path. The target need not exist.
std::filesystem::path followed_links(std::filesystem::path path);

/// An output file that appears complete or not at all. The data go to an unnamed file in the target's folder (or a file
/// with a temporary name, if the system has no unnamed files) until commit() gives it the target's name. Without
/// commit(), the target is unchanged and the unnamed file disappears, however the program ends.
///
/// Data for a name ending in ".gz" are compressed. "-" is standard output. A target that is not a regular file
/// (/dev/null, a pipe) is written directly. A symbolic link is kept, whether or not its target exists; an existing file
/// keeps its permissions. Throws InputError, code "file", if the target cannot be written.
///
///     OutputFile file{"graph.json.gz"};
///     write_graph(graph, file.stream());
///     file.commit();
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  std::ostream& stream();

  /// Flushes and ends writing. Throws InputError, code "file", if not all data could be written (for example, on a full
  /// disk).
  void finish();
  /// Calls finish() if it has not been called, then gives the file its name. With several outputs, call finish() on all
  /// of them before the first commit().
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
