#include "trainyard/io/input_text.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/text.hpp"

namespace trainyard {
namespace fs = std::filesystem;
namespace {

/// Longer lines are cut to about this many bytes around the reported position.
constexpr std::size_t kLongestExcerpt = 160;
constexpr std::string_view kCut = "...";

[[noreturn]] void refuse_input(const fs::path& path, std::string message, std::string help) {
  refuse_file(input_name(path), "file", std::move(message), std::move(help));
}

[[noreturn]] void fail_too_large(const fs::path& path, std::size_t limit) {
  refuse_input(path, fmt::format("'{}' holds more than {} bytes", input_name(path), limit),
               "split the input, or check that it is the right file");
}

std::string help_for_missing(const fs::path& path) {
  std::error_code ignored;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path{"."};
  if (!fs::is_directory(folder, ignored)) return fmt::format("there is no folder '{}'", folder.string());
  if (fs::is_symlink(path, ignored)) return "it is a link to a file that is gone: copy the file itself";
  std::vector<std::string> names;
  constexpr std::size_t kMostNames = 10'000;
  for (auto entry = fs::directory_iterator(folder, ignored); entry != fs::directory_iterator();
       entry.increment(ignored)) {
    if (ignored || names.size() == kMostNames) break;
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (const auto nearest = nearest_name(path.filename().string(), names))
    return fmt::format("did you mean '{}'?", (path.parent_path() / *nearest).string());
  return "check the name and the folder";
}

/// Bytes of standard input that begin_of_input() has consumed and read_input() has still to return.
std::string& looked_at() {
  static std::string text;
  return text;
}

/// Appends the rest of the file to `text` and returns it.
std::string read_stream(std::FILE* file, const fs::path& path, std::size_t limit, std::string text = {}) {
  std::vector<char> block(std::size_t{1} << 16);
  errno = 0;
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file)) {
    if (text.size() + got > limit) fail_too_large(path, limit);
    text.append(block.data(), got);
  }
  if (std::ferror(file))
    refuse_input(path, fmt::format("cannot read '{}': {}", input_name(path), std::strerror(errno)), "");
  return text;
}

std::string read_raw(const fs::path& path, std::size_t limit) {
  if (path == "-") return read_stream(stdin, path, limit, std::exchange(looked_at(), {}));
  if (path.empty()) refuse_input(path, "the name of the input is empty", "give a file name, or '-' for standard input");
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    refuse_input(path, fmt::format("'{}' is a folder, not a file", path.string()), "give the name of a file in it");
  if (const auto size = fs::file_size(path, ignored); !ignored && size > limit) fail_too_large(path, limit);
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file{std::fopen(path.c_str(), "rb")};
  if (!file) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR)
      refuse_input(path, fmt::format("there is no file '{}'", path.string()), help_for_missing(path));
    refuse_input(path, fmt::format("cannot read '{}': {}", path.string(), std::strerror(error)),
                 error == EACCES ? "check the permissions of the file and its folders" : "");
  }
  return read_stream(file.get(), path, limit);
}

/// Length that the trailer of a gzip file gives for its last member, modulo 2^32. Most files have a single member, so
/// this is the length of the whole content. It is capped by deflate's highest compression ratio.
std::size_t length_of_last_member(std::string_view data) {
  constexpr std::size_t kMostCompression = 1032;  // highest ratio of deflate
  if (data.size() < 4) return 0;
  std::size_t length = 0;
  for (std::size_t byte = 1; byte <= 4; ++byte)
    length = length << 8 | static_cast<unsigned char>(data[data.size() - byte]);
  return std::min(length, kMostCompression * data.size());
}

/// Decompresses all members of a gzip file.
std::string decompress(std::string_view data, const fs::path& path, std::size_t limit) {
  const std::string name = input_name(path);
  std::string text;
  text.reserve(std::min(limit, length_of_last_member(data)));
  while (!data.empty()) {
    if (!is_gzip(data))
      refuse_input(path, fmt::format("'{}' has something after its gzip data", name), "write the file again");
    z_stream zip{};
    constexpr int kGzip = 16;
    if (inflateInit2(&zip, MAX_WBITS + kGzip) != Z_OK) throw std::bad_alloc();
    const std::unique_ptr<z_stream, int (*)(z_stream*)> end{&zip, inflateEnd};
    std::vector<char> block(std::size_t{1} << 17);
    int result = Z_OK;
    while (result == Z_OK) {
      if (zip.avail_in == 0) {  // zlib's counters have 32 bits
        const std::size_t piece = std::min<std::size_t>(data.size(), std::size_t{1} << 30);
        zip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
        zip.avail_in = static_cast<uInt>(piece);
        data.remove_prefix(piece);
      }
      zip.next_out = reinterpret_cast<Bytef*>(block.data());
      zip.avail_out = static_cast<uInt>(block.size());
      result = inflate(&zip, Z_NO_FLUSH);
      const std::size_t got = block.size() - zip.avail_out;
      if (text.size() + got > limit) fail_too_large(path, limit);
      text.append(block.data(), got);
    }
    if (result == Z_BUF_ERROR)
      refuse_input(path, fmt::format("'{}' is cut short: its gzip data end in the middle", name),
                   "copy or write it again");
    if (result != Z_STREAM_END)
      refuse_input(path, fmt::format("'{}' is damaged: {}", name, zip.msg ? zip.msg : "not gzip data"),
                   "copy or write it again");
    data = {data.data() - zip.avail_in, data.size() + zip.avail_in};
  }
  return text;
}

int characters(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !detail::continues_character(c); }));
}

}  // namespace

bool is_gzip(std::string_view data) { return data.starts_with("\x1f\x8b"); }

std::string input_name(const fs::path& path) { return path == "-" ? "<stdin>" : path.string(); }

std::string read_input(const fs::path& path, std::size_t limit) {
  std::string data = read_raw(path, limit);
  if (is_gzip(data))
    return decompress(data, path,
                      std::min(limit, std::max(limits::kUncompressedInput, limits::kCompression * data.size())));
  if (path.extension() == ".gz")
    refuse_input(path, fmt::format("'{}' is not gzip data, though its name ends in .gz", path.string()),
                 "compress it with gzip, or take .gz off its name");
  return data;
}

std::string begin_of_input(const fs::path& path, std::size_t most) {
  if (path == "-") {
    std::string& text = looked_at();
    const std::size_t known = text.size();
    text.resize(std::max(known, most));
    text.resize(known + std::fread(text.data() + known, 1, text.size() - known, stdin));
    return text.substr(0, most);
  }
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file{gzopen(path.c_str(), "rb"), gzclose};  // plain files too
  if (!file) return {};
  std::string text(most, '\0');
  const int read = gzread(file.get(), text.data(), static_cast<unsigned>(most));
  text.resize(static_cast<std::size_t>(std::max(0, read)));
  return text;
}

std::string_view first_key(std::string_view begin) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t brace = begin.find_first_not_of(kBlank);
  if (brace == std::string_view::npos || begin[brace] != '{') return {};
  const std::size_t key = begin.find_first_not_of(kBlank, brace + 1);
  if (key == std::string_view::npos || begin[key] != '"') return {};
  begin.remove_prefix(key + 1);
  return begin.substr(0, begin.find('"'));
}

void refuse_file(const std::string& file, std::string code, std::string message, std::string help) {
  throw InputError({.code = std::move(code),
                    .message = std::move(message),
                    .help = std::move(help),
                    .pointer = {},
                    .at = {.file = file}});
}

Location location_at(std::string_view file, std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.find_last_of('\n') + 1;  // npos + 1 is 0
  std::string_view line = text.substr(line_start, text.find('\n', offset) - line_start);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  std::size_t at = std::min(offset - line_start, line.size());

  Location location;
  location.file = file;
  location.line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  location.column = characters(line.substr(0, at)) + 1;
  if (line.size() <= kLongestExcerpt) {
    location.source_line = line;
    return location;
  }
  std::size_t first = at > kLongestExcerpt / 2 ? at - kLongestExcerpt / 2 : 0;
  while (first > 0 && detail::continues_character(line[first])) --first;
  std::size_t last = std::min(line.size(), first + kLongestExcerpt);
  while (last < line.size() && detail::continues_character(line[last])) ++last;
  location.excerpt_column = characters(line.substr(first, at - first)) + 1;
  if (first > 0) {
    location.source_line = kCut;
    location.excerpt_column += static_cast<int>(kCut.size());
  }
  location.source_line += line.substr(first, last - first);
  if (last < line.size()) location.source_line += kCut;
  return location;
}

Location location_at_line(std::string_view file, std::string_view text, int line, int column) {
  std::size_t offset = 0;
  for (int i = 1; i < line; ++i) {
    const std::size_t end = text.find('\n', offset);
    if (end == std::string_view::npos) break;
    offset = end + 1;
  }
  for (int i = 1; i < column && offset < text.size() && text[offset] != '\n'; ++i) do
      ++offset;
    while (offset < text.size() && detail::continues_character(text[offset]));
  return location_at(file, text, offset);
}

}  // namespace trainyard
