#include "trainyard/io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "trainyard/io/input_text.hpp"

namespace trainyard {

MappedFile::MappedFile(const std::filesystem::path& path, std::size_t limit) {
  if (path != "-" && path.extension() != ".gz" && map(path)) {
    if (!is_gzip(bytes_) && bytes_.size() <= limit) return;
    unmap();
  }
  read_ = read_input(path, std::min(limit, limits::kInput));  // also if mapping failed: it reports the reason
  bytes_ = read_;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  if (mapping_) munmap(mapping_, mapped_);
  mapping_ = nullptr;
}

bool MappedFile::map(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat about = {};
  if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
    const auto size = static_cast<std::size_t>(about.st_size);
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping != MAP_FAILED) {
      mapping_ = mapping;
      mapped_ = size;
      bytes_ = {static_cast<const char*>(mapping), size};
    }
  }
  close(file);
  return mapping_ != nullptr;
}

}  // namespace trainyard
