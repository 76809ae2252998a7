#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace trainyard {

/// The bytes of a file, memory-mapped if possible, so that pages that are never accessed are never loaded. Gzip data
/// and standard input ("-") are read into memory.
class MappedFile {
 public:
  /// Throws InputError, code "file", as read_input() does, also if the file has more than `limit` bytes. A file that
  /// cannot be mapped is limited to limits::kInput bytes as well.
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
