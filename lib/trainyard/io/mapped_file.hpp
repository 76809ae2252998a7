#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace trainyard {

/// The bytes of a file, mapped rather than read where that is possible: what is never looked at is never loaded. Gzip
/// data and standard input ("-") are read into memory.
class MappedFile {
 public:
  /// Throws InputError, code "file", as read_input does: also where there are more than `limit` bytes.
  explicit MappedFile(const std::filesystem::path& path, std::size_t limit = std::numeric_limits<std::size_t>::max());
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  bool map(const std::filesystem::path& path);
  void unmap();

  std::string_view bytes_;
  std::string read_;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
};

}  // namespace trainyard
