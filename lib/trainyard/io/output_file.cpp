#include "trainyard/io/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <ostream>
#include <streambuf>
#include <utility>

#include "trainyard/io/input_text.hpp"

namespace trainyard {
namespace fs = std::filesystem;
namespace detail {

/// Writes to a descriptor and keeps the first error. An interrupted write counts as an error, because the run is meant
/// to stop.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor) : descriptor_(descriptor) {
    setp(bytes_.data(), bytes_.data() + bytes_.size());
  }

  /// errno of the first failed write; 0 if none failed.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override {
    for (const char* at = pbase(); error_ == 0 && at < pptr();) {
      const ssize_t written = write(descriptor_, at, static_cast<std::size_t>(pptr() - at));
      if (written < 0)
        error_ = errno;
      else
        at += written;
    }
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return error_ == 0 ? 0 : -1;
  }

 private:
  int descriptor_;
  int error_ = 0;
  std::array<char, 1 << 16> bytes_;
};

/// Compresses the data written to it with gzip. The header has no time stamp, so equal contents give equal files.
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(std::ostream& target) : target_(target) {
    constexpr int kGzip = 16;
    if (deflateInit2(&zip_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
    setp(plain_.data(), plain_.data() + plain_.size());
  }
  ~GzipBuffer() override { deflateEnd(&zip_); }

  /// Writes the remaining data and the trailer.
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

}  // namespace detail

namespace {

[[noreturn]] void fail(const fs::path& path, const std::string& why, const std::string& help) {
  refuse_file(path.string(), "file", fmt::format("cannot write '{}': {}", path.string(), why), help);
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
    case ENAMETOOLONG:
      return "give a shorter name";
    case ELOOP:
      return "name a file: these symbolic links lead to each other";
    case EMFILE:
      return "raise the limit of open files: ulimit -n";
    case EFBIG:
      return "raise the limit of file sizes: ulimit -f";
    case ENOSPC:
    case EDQUOT:
      return "free some space, or write to another disk";
    default:
      return "";
  }
}

[[noreturn]] void fail_errno(const fs::path& path, int error) { fail(path, std::strerror(error), help_for(error)); }

fs::path folder_of(const fs::path& target) { return target.has_parent_path() ? target.parent_path() : fs::path{"."}; }

/// An unused name in the target's folder, short enough for any file system that accepts the target's name.
fs::path temporary_name(const fs::path& target) {
  static std::atomic<unsigned> made{0};
  return folder_of(target) / fmt::format(".trainyard-{}-{}.tmp", getpid(), made++);
}

}  // namespace

fs::path followed_links(fs::path path) {
  constexpr int kMostLinks = 40;  // Linux's limit
  std::error_code failed;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, failed); ++i) {
    const fs::path next = fs::read_symlink(path, failed);
    if (failed) break;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

struct OutputFile::State {
  fs::path shown;      // as the user wrote it
  fs::path target;     // with symbolic links resolved
  fs::path temporary;  // empty if written directly or not named yet
  int descriptor = -1;
  bool direct = false, finished = false;
  std::unique_ptr<detail::DescriptorBuffer> file;
  std::unique_ptr<std::ostream> stream;
  std::unique_ptr<detail::GzipBuffer> zip;
  std::unique_ptr<std::ostream> zip_stream;

  ~State() {
    if (descriptor > STDOUT_FILENO) close(descriptor);
    std::error_code ignored;
    if (!temporary.empty()) fs::remove(temporary, ignored);
  }

  std::string proc_name() const { return fmt::format("/proc/self/fd/{}", descriptor); }

  /// Creates a new file in the target's folder. It has no name if the system supports that (O_TMPFILE), so that nothing
  /// is left behind however the program ends.
  void open_new(mode_t permissions) {
    descriptor = open(folder_of(target).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor >= 0 && access(proc_name().c_str(), F_OK) != 0) {  // it could not be named later
      close(descriptor);
      descriptor = -1;
    }
    for (int tries = 0; descriptor < 0 && tries < 1000; ++tries) {
      const fs::path name = temporary_name(target);
      descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor >= 0) temporary = name;
      if (descriptor < 0 && errno != EEXIST) fail_errno(shown, errno);
    }
    if (descriptor < 0) fail(shown, "no free temporary name", "remove old '.tmp' files beside it");
    if (permissions != 0) fchmod(descriptor, permissions);
  }
};

OutputFile::OutputFile(const fs::path& path) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.shown = path;
  if (path.empty()) fail(path, "the name is empty", "give a file name, or '-' for standard output");
  if (path == "-") {
    std::cout.flush();
    state.descriptor = STDOUT_FILENO;
    state.direct = true;
  } else {
    struct stat existing {};
    const bool exists = stat(path.c_str(), &existing) == 0;
    if (!exists && errno != ENOENT) fail_errno(path, errno);
    state.target = followed_links(path);
    if (exists && S_ISDIR(existing.st_mode)) fail(path, "it is a folder", "give the name of a file in it");
    if (exists && access(path.c_str(), W_OK) != 0) fail_errno(path, errno);
    state.direct = exists && !S_ISREG(existing.st_mode);
    if (!state.direct)
      state.open_new(exists ? existing.st_mode & 07777 : 0);
    else if ((state.descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC)) < 0)
      fail_errno(path, errno);
  }
  state.file = std::make_unique<detail::DescriptorBuffer>(state.descriptor);
  state.stream = std::make_unique<std::ostream>(state.file.get());
  if (path != "-" && path.extension() == ".gz") {
    state.zip = std::make_unique<detail::GzipBuffer>(*state.stream);
    state.zip_stream = std::make_unique<std::ostream>(state.zip.get());
  }
}

OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;

std::ostream& OutputFile::stream() { return state_->zip_stream ? *state_->zip_stream : *state_->stream; }

void OutputFile::finish() {
  State& state = *state_;
  if (std::exchange(state.finished, true)) return;
  const bool written = stream().good();
  if (state.zip) state.zip->finish();
  state.stream->flush();
  if (state.file->error() != 0) fail_errno(state.shown, state.file->error());
  if (!written || !state.stream->good()) fail_errno(state.shown, EIO);
}

void OutputFile::commit() {
  State& state = *state_;
  finish();
  if (state.direct) return;
  if (state.temporary.empty()) {
    fs::path name = temporary_name(state.target);
    if (linkat(AT_FDCWD, state.proc_name().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      fail_errno(state.shown, errno);
    state.temporary = std::move(name);
  }
  if (rename(state.temporary.c_str(), state.target.c_str()) != 0) fail_errno(state.shown, errno);
  state.temporary.clear();
}

}  // namespace trainyard
