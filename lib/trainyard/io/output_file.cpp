#include "trainyard/io/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <ostream>
#include <streambuf>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const fs::path& path, const std::string& why, const std::string& help) {
  Finding finding{"file", fmt::format("cannot write '{}': {}", path.string(), why), help, "", {}};
  finding.at.file = path.string();
  throw InputError(std::move(finding));
}

std::string help_for(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "make the folder first, or name another one";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a folder that you may write to";
    case ENOSPC:
    case EDQUOT:
      return "free some space, or write to another disk";
    default:
      return "";
  }
}

[[noreturn]] void fail_errno(const fs::path& path, int error) { fail(path, std::strerror(error), help_for(error)); }

/// Compresses what is put into it (gzip, without a time, so that equal contents give equal files).
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(std::ostream& target) : target_(target) {
    constexpr int kGzip = 16;
    if (deflateInit2(&zip_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
    setp(plain_.data(), plain_.data() + plain_.size());
  }
  ~GzipBuffer() override { deflateEnd(&zip_); }

  /// Writes what is left, and the trailer.
  void finish() { deflate_all(Z_FINISH); }

 protected:
  int_type overflow(int_type c) override {
    deflate_all(Z_NO_FLUSH);
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return target_.good() ? traits_type::not_eof(c) : traits_type::eof();
  }

 private:
  void deflate_all(int flush) {
    zip_.next_in = reinterpret_cast<Bytef*>(pbase());
    zip_.avail_in = static_cast<uInt>(pptr() - pbase());
    do {
      zip_.next_out = reinterpret_cast<Bytef*>(packed_.data());
      zip_.avail_out = static_cast<uInt>(packed_.size());
      deflate(&zip_, flush);
      target_.write(packed_.data(), static_cast<std::streamsize>(packed_.size() - zip_.avail_out));
    } while (zip_.avail_out == 0);
    setp(plain_.data(), plain_.data() + plain_.size());
  }

  std::ostream& target_;
  z_stream zip_{};
  std::array<char, 1 << 16> plain_;
  std::array<char, 1 << 16> packed_;
};

/// Makes an empty file with a new name beside the target, with its permissions where it exists.
fs::path make_temporary(const fs::path& target) {
  static std::atomic<unsigned> made{0};
  for (int tries = 0; tries < 1000; ++tries) {
    const fs::path name =
        target.parent_path() / fmt::format(".{}.{}-{}.tmp", target.filename().string(), getpid(), made++);
    const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) fail_errno(target, errno);
    struct stat existing {};
    if (stat(target.c_str(), &existing) == 0) fchmod(file, existing.st_mode & 07777);
    close(file);
    return name;
  }
  fail(target, "no free temporary name", "remove old '.tmp' files beside it");
}

}  // namespace

struct OutputFile::State {
  fs::path shown;      // as the user wrote it
  fs::path target;     // with links resolved
  fs::path temporary;  // empty: written directly
  std::ofstream file;
  std::ostream* raw = nullptr;
  std::unique_ptr<GzipBuffer> zip;
  std::unique_ptr<std::ostream> zip_stream;
  bool committed = false;

  ~State() {
    zip_stream.reset();
    zip.reset();
    file.close();
    std::error_code ignored;
    if (!committed && !temporary.empty()) fs::remove(temporary, ignored);
  }
};

OutputFile::OutputFile(const fs::path& path) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.shown = path;
  if (path.empty()) fail(path, "the name is empty", "give a file name, or '-' for standard output");
  if (path == "-") {
    state.raw = &std::cout;
    return;
  }
  std::error_code ignored;
  state.target = fs::is_symlink(path, ignored) && fs::exists(path, ignored) ? fs::canonical(path, ignored) : path;
  if (fs::is_directory(state.target, ignored)) fail(path, "it is a folder", "give the name of a file in it");
  if (fs::exists(state.target, ignored) && access(state.target.c_str(), W_OK) != 0) fail_errno(path, errno);
  const bool direct = fs::exists(state.target, ignored) && !fs::is_regular_file(state.target, ignored);
  if (!direct) state.temporary = make_temporary(state.target);
  errno = 0;
  state.file.open(direct ? state.target : state.temporary, std::ios::binary | std::ios::trunc);
  if (!state.file) fail_errno(path, errno);
  state.raw = &state.file;
  if (path.extension() == ".gz") {
    state.zip = std::make_unique<GzipBuffer>(state.file);
    state.zip_stream = std::make_unique<std::ostream>(state.zip.get());
  }
}

OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;

std::ostream& OutputFile::stream() { return state_->zip_stream ? *state_->zip_stream : *state_->raw; }

void OutputFile::commit() {
  State& state = *state_;
  assert(!state.committed);
  errno = 0;
  const bool written = stream().good();
  if (state.zip) state.zip->finish();
  state.raw->flush();
  const int error = errno;
  if (!written || !state.raw->good()) fail_errno(state.shown, error ? error : EIO);
  if (state.raw == &state.file) {
    state.file.close();
    if (state.file.fail()) fail_errno(state.shown, errno ? errno : EIO);
  }
  if (!state.temporary.empty()) {
    std::error_code failed;
    fs::rename(state.temporary, state.target, failed);
    if (failed) fail_errno(state.shown, failed.value());
  }
  state.committed = true;
}

}  // namespace trainyard
