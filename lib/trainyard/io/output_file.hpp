#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>

namespace trainyard {

/// An output that is there whole or not at all: it is written to a temporary file beside the target, which commit()
/// renames; without commit() the temporary file is removed and the target stays as it was.
///
/// A name that ends in ".gz" is compressed. "-" is standard output, and a target that is no regular file (/dev/null, a
/// pipe) is written directly. A symbolic link keeps pointing to what it pointed to; an existing file keeps its
/// permissions. Throws InputError, code "file", where the target cannot be written.
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

  /// Ends the output. Throws InputError, code "file", where not everything could be written (a full disk).
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard
