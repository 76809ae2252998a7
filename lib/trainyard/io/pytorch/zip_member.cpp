#include "trainyard/io/pytorch/zip_member.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/io/input_text.hpp"

// PKWARE: APPNOTE.TXT, .ZIP file format specification, 6.3.
namespace trainyard {
namespace {

constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEntryBytes = 46, kLocalBytes = 30;
constexpr std::uint64_t kMostDirectory = std::uint64_t{1} << 28;  // bytes of the directory: millions of members

struct ZipEntry {
  std::string name;
  std::uint64_t packed = 0, size = 0, header = 0;  // sizes in bytes; offset of the local header
  std::uint32_t checksum = 0;
  unsigned method = 0;
  bool encrypted = false;
};

/// The little-endian number of `count` bytes at `at`.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t number = 0;
  for (std::size_t i = count; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) refuse("file", fmt::format("cannot read '{}'", path.string()), "check the name and the permissions");
    file_.seekg(0, std::ios::end);
    size_ = static_cast<std::uint64_t>(std::max<std::streamoff>(file_.tellg(), 0));
    read_directory();
  }

  const std::vector<ZipEntry>& entries() const { return entries_; }

  std::string content(const ZipEntry& entry) {
    if (entry.encrypted || (entry.method != 0 && entry.method != Z_DEFLATED))
      refuse("archive",
             fmt::format("the archive's member '{}' is {}", entry.name,
                         entry.encrypted ? "encrypted" : fmt::format("compressed by method {}", entry.method)),
             "save it again with torch.export.save");
    if (entry.size > limits::kUncompressedInput || entry.packed > limits::kUncompressedInput)
      refuse("too-large", fmt::format("the archive's member '{}' has {} bytes", entry.name, entry.size),
             "split the model");
    const std::string local = bytes(entry.header, kLocalBytes);
    if (!local.starts_with("PK\x03\x04")) damaged(entry.header);
    const std::uint64_t begin = entry.header + kLocalBytes + number_at(local, 26, 2) + number_at(local, 28, 2);
    const std::string packed = bytes(begin, entry.packed);
    std::string text = entry.method == 0 ? packed : inflated(packed, entry);
    const uLong checksum = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
    if (text.size() != entry.size || checksum != entry.checksum) damaged(begin);
    return text;
  }

  [[noreturn]] void refuse(const char* code, const std::string& message, const std::string& help) const {
    refuse_file(input_name(path_), code, message, help);
  }

 private:
  [[noreturn]] void damaged(std::uint64_t at) const {
    refuse("archive", fmt::format("'{}' is cut short or damaged: invalid archive at byte {}", path_.string(), at),
           "copy or save it again");
  }

  std::string bytes(std::uint64_t at, std::uint64_t count) {
    if (at > size_ || count > size_ - at) damaged(at);
    std::string read(static_cast<std::size_t>(count), '\0');
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(at));
    file_.read(read.data(), static_cast<std::streamsize>(count));
    if (file_.gcount() != static_cast<std::streamsize>(count)) damaged(at);
    return read;
  }

  void read_directory() {
    constexpr std::uint64_t kMostComment = 65'535;
    const std::uint64_t tail_at = size_ - std::min(size_, kEndBytes + kMostComment + kLocatorBytes);
    const std::string tail = bytes(tail_at, size_ - tail_at);
    const std::size_t end = tail.rfind("PK\x05\x06");
    if (end == std::string::npos || tail.size() - end < kEndBytes) damaged(size_);
    std::uint64_t directory = number_at(tail, end + 16, 4), length = number_at(tail, end + 12, 4);
    if (end >= kLocatorBytes && tail.compare(end - kLocatorBytes, 4, "PK\x06\x07") == 0) {  // ZIP64, beyond 32 bits
      const std::uint64_t at = number_at(tail, end - kLocatorBytes + 8, 8);
      const std::string wide = bytes(at, 56);
      if (!wide.starts_with("PK\x06\x06")) damaged(at);
      length = number_at(wide, 40, 8);
      directory = number_at(wide, 48, 8);
    }
    if (length > kMostDirectory) damaged(directory);
    const std::string all = bytes(directory, length);
    for (std::size_t at = 0; at + kEntryBytes <= all.size();) {
      if (all.compare(at, 4, "PK\x01\x02") != 0) damaged(directory + at);
      ZipEntry entry;
      entry.encrypted = (number_at(all, at + 8, 2) & 1) != 0;
      entry.method = static_cast<unsigned>(number_at(all, at + 10, 2));
      entry.checksum = static_cast<std::uint32_t>(number_at(all, at + 16, 4));
      entry.packed = number_at(all, at + 20, 4);
      entry.size = number_at(all, at + 24, 4);
      entry.header = number_at(all, at + 42, 4);
      const std::size_t name = number_at(all, at + 28, 2), extra = number_at(all, at + 30, 2),
                        comment = number_at(all, at + 32, 2);
      if (all.size() - at - kEntryBytes < name + extra + comment) damaged(directory + at);
      entry.name = all.substr(at + kEntryBytes, name);
      widen(entry, std::string_view{all}.substr(at + kEntryBytes + name, extra));
      entries_.push_back(std::move(entry));
      at += kEntryBytes + name + extra + comment;
    }
  }

  /// Replaces sizes and offsets that do not fit into 32 bits by those of the entry's ZIP64 extra field.
  static void widen(ZipEntry& entry, std::string_view extra) {
    constexpr std::uint64_t kWide = 0xffffffff;
    while (extra.size() >= 4) {
      const std::size_t length = std::min<std::size_t>(number_at(extra, 2, 2), extra.size() - 4);
      std::string_view field = extra.substr(4, length);
      if (number_at(extra, 0, 2) == 1)
        for (std::uint64_t* const value : {&entry.size, &entry.packed, &entry.header})
          if (*value == kWide && field.size() >= 8) {
            *value = number_at(field, 0, 8);
            field.remove_prefix(8);
          }
      extra.remove_prefix(4 + length);
    }
  }

  std::string inflated(const std::string& packed, const ZipEntry& entry) const {
    std::string text(static_cast<std::size_t>(entry.size), '\0');
    z_stream zip{};
    if (inflateInit2(&zip, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    zip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    zip.avail_in = static_cast<uInt>(packed.size());
    zip.next_out = reinterpret_cast<Bytef*>(text.data());
    zip.avail_out = static_cast<uInt>(text.size());
    const int result = inflate(&zip, Z_FINISH);
    inflateEnd(&zip);
    if (result != Z_STREAM_END || zip.avail_out != 0) damaged(entry.header);
    return text;
  }

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace

bool is_zip(std::string_view begin) { return begin.starts_with("PK\x03\x04"); }

std::string read_zip_member(const std::filesystem::path& path, std::span<const std::string_view> names) {
  ZipArchive archive{path};
  for (const std::string_view name : names)
    for (const ZipEntry& entry : archive.entries())
      if (entry.name == name || std::string_view{entry.name}.ends_with("/" + std::string{name}))
        return archive.content(entry);
  std::vector<std::string> there;
  constexpr std::size_t kShown = 5;
  for (const ZipEntry& entry : archive.entries())
    if (there.size() < kShown) there.push_back(printable(entry.name));
  archive.refuse("archive",
                 fmt::format("'{}' does not contain {}, but {}{}", path.string(), fmt::join(names, " or "),
                             fmt::join(there, ", "), archive.entries().size() > kShown ? ", ..." : ""),
                 "give a file that torch.export.save has written");
}

}  // namespace trainyard
