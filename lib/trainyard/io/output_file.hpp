#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>

namespace trainyard {

/// The target of a path's symbolic links, which need not exist yet.
std::filesystem::path followed_links(std::filesystem::path path);

/// An output that is there whole or not at all: it is written to a file in the folder of the target that has no name
/// (or a temporary one, where the system knows no other) until commit() gives it the target's; without commit() nothing
/// of it stays, however the program ends, and the target stays as it was.
///
/// A name that ends in ".gz" is compressed. "-" is standard output, and a target that is no regular file (/dev/null, a
/// pipe) is written directly. A symbolic link keeps pointing to what it points to, there or not yet; an existing file
/// keeps its permissions. Throws InputError, code "file", where the target cannot be written.
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

  /// Ends the writing. Throws InputError, code "file", where not everything could be written (a full disk).
  void finish();
  /// Ends the writing where finish() did not, and shows the file under its name. Of several outputs, finish() all
  /// before the first commit().
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
