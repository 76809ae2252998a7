#include "trainyard/sweep/sweep_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "trainyard/core/error.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_write.hpp"
#include "trainyard/io/mapped_file.hpp"
#include "trainyard/io/output_file.hpp"
#include "trainyard/sweep/sweep_page.hpp"

namespace trainyard {
namespace fs = std::filesystem;
namespace detail {

/// Identifies the study of a folder.
struct StudyId {
  std::string name;
  std::uint64_t rows = 0;
  std::string digest;
};

/// A line of a journal: "row TAB seconds TAB result".
struct Entry {
  std::string_view seconds, result;
};

/// The entries of all journals by row, as views of the journals, which stay mapped.
class Entries {
 public:
  void read(const fs::path& journal, std::uint64_t rows) {
    std::error_code ignored;
    if (fs::file_size(journal, ignored) == 0) return;
    std::string_view text = files_.emplace_back(std::make_unique<MappedFile>(journal))->bytes();
    std::uint64_t number = 0;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end + 1);
      ++number;
      std::uint64_t row = 0;
      const auto read = std::from_chars(line.data(), line.data() + line.size(), row);
      const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
      if (second == std::string_view::npos || second + 1 == line.size() || read.ec != std::errc{} ||
          read.ptr != line.data() + first || row >= rows)
        refuse("no-sweep", fmt::format("line {} of '{}' is no row of this study", number, journal.string()),
               "remove the line from the journal: --resume runs its row again");
      if (row >= entries_.size()) entries_.resize(row + 1);
      Entry& entry = entries_[row];
      const Entry found{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
      if (!entry.result.empty() && entry.result != found.result)
        refuse("two-results",
               fmt::format("row {} has two different results, the second in '{}'", row, journal.string()),
               "check whether the same study ran with other files or another version");
      if (entry.result.empty()) ++count_;
      entry = found;
    }
  }

  std::uint64_t count() const { return count_; }
  bool has(std::uint64_t row) const { return row < entries_.size() && !entries_[row].result.empty(); }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t row = 0; row < entries_.size(); ++row)
      if (!entries_[row].result.empty()) visit(row, entries_[row]);
  }

 private:
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<Entry> entries_;
  std::uint64_t count_ = 0;
};

}  // namespace detail
namespace {

using detail::Entries;
using detail::Entry;
using detail::StudyId;

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "trainyard-sweep/1";

[[noreturn]] void fail(const fs::path& path, int error, const std::string& help = "") {
  refuse("file", fmt::format("cannot write '{}': {}", path.string(), std::strerror(error)), help);
}

StudyId id_of(const Study& study) { return {study.name(), study.size(), study.digest()}; }

std::optional<StudyId> read_id(const fs::path& folder) {
  const fs::path path = folder / "sweep.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    const Json object = Json::parse(read_input(path, 1 << 20));
    if (object.at("format").get<std::string>() == kFormat)
      return StudyId{object.at("study").get<std::string>(), object.at("rows").get<std::uint64_t>(),
                     object.at("digest").get<std::string>()};
  } catch (const Json::exception&) {  // refused below
  }
  refuse("no-sweep", fmt::format("'{}' was not written by a sweep", path.string()),
         "name a folder that `trainyard sweep` wrote");
}

void write_id(const fs::path& folder, const StudyId& id) {
  OutputFile file{folder / "sweep.json"};
  file.stream() << fmt::format("{{\"format\": \"{}\", \"study\": {}, \"rows\": {}, \"digest\": \"{}\"}}\n", kFormat,
                               detail::json_string(id.name), id.rows, id.digest);
  file.commit();
}

void check_same(const StudyId& found, const StudyId& wanted, const fs::path& folder) {
  if (found.digest == wanted.digest && found.rows == wanted.rows) return;
  refuse("other-study",
         fmt::format("'{}' holds results of another study ('{}', {} rows) than '{}' ({} rows)", folder.string(),
                     found.name, found.rows, wanted.name, wanted.rows),
         "name another folder, or give the study and options that the folder belongs to");
}

std::vector<fs::path> journals_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("journal-") && name.ends_with(".log")) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

/// Refuses journals with rows if no sweep.json identifies their study.
void refuse_strays(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& journal : journals_of(folder))
    if (fs::file_size(journal, ignored) != 0)
      refuse("no-sweep",
             fmt::format("'{}' has rows, but there is no sweep.json that names their study", journal.string()),
             "put its sweep.json back, remove the journals, or name another folder");
}

std::string csv_text(const Json& value) {
  return value.is_null() ? "" : value.is_string() ? csv_field(value.get_ref<const std::string&>()) : value.dump();
}

SweepFolder::Count write_results(const Entries& entries, const StudyId& id, const fs::path& folder) {
  OutputFile lines{folder / "results.jsonl"}, table{folder / "results.csv"}, times{folder / "times.csv"},
      page{folder / "index.html"};
  std::vector<std::string> columns;  // keys differ between grids and for failed rows
  entries.for_each([&](std::uint64_t row, const Entry& entry) {
    lines.stream() << entry.result << '\n';
    const Json object = Json::parse(entry.result, nullptr, false);
    if (!object.is_object())
      refuse("no-sweep", fmt::format("the result of row {} in '{}' is damaged", row, folder.string()),
             "remove its line from the journal: --resume runs the row again");
    for (auto member = object.begin(); member != object.end(); ++member)
      if (std::ranges::find(columns, member.key()) == columns.end()) columns.push_back(member.key());
  });
  // The columns of failed rows come last, whichever row introduced them.
  std::stable_partition(columns.begin(), columns.end(),
                        [](const std::string& column) { return column != "error" && column != "code"; });
  table.stream() << fmt::format("{}\n", fmt::join(columns, ","));
  times.stream() << "row,seconds\n";
  SweepPage curves{id.name, id.rows};
  SweepFolder::Count count{.rows = entries.count(), .of = id.rows};
  entries.for_each([&](std::uint64_t row, const Entry& entry) {
    const Json object = Json::parse(entry.result);
    std::string line;
    for (const std::string& column : columns) {
      if (&column != &columns.front()) line += ',';
      if (const auto member = object.find(column); member != object.end()) line += csv_text(*member);
    }
    table.stream() << line << '\n';
    times.stream() << row << ',' << entry.seconds << '\n';
    curves.add(object);
    const auto error = object.find("error");
    if (error != object.end() && count.errors++ == 0)
      count.first_error =
          fmt::format("row {}: {}", row, error->is_string() ? error->get<std::string>() : error->dump());
  });
  curves.write(page.stream());
  for (OutputFile* file : {&lines, &table, &times, &page}) file->finish();
  for (OutputFile* file : {&lines, &table, &times, &page}) file->commit();
  return count;
}

}  // namespace

struct SweepFolder::State {
  fs::path folder, journal;
  detail::StudyId id;
  detail::Entries before;
  int lock = -1, out = -1;
  std::mutex mutex;

  ~State() {
    for (const int file : {lock, out})
      if (file >= 0) ::close(file);
  }

  void take_lock() {
    const fs::path path = folder / "lock";
    lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0) fail(path, errno);
    if (::flock(lock, LOCK_EX | LOCK_NB) != 0)
      refuse("sweep-runs", fmt::format("another sweep is writing into '{}'", folder.string()),
             "wait until it ends, or name another folder");
  }

  /// Opens the journal and cuts off a truncated last line.
  void open_journal() {
    out = ::open(journal.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (out < 0) fail(journal, errno);
    const off_t size = ::lseek(out, 0, SEEK_END);
    off_t end = size;
    for (char last = 0; end > 0; --end) {
      if (::pread(out, &last, 1, end - 1) != 1) fail(journal, errno);
      if (last == '\n') break;
    }
    if (end < size && ::ftruncate(out, end) != 0) fail(journal, errno);
    if (::lseek(out, 0, SEEK_END) < 0) fail(journal, errno);
  }
};

SweepFolder::SweepFolder(const fs::path& folder, const Study& study, Open open, std::size_t writer)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.folder = folder;
  state.id = id_of(study);
  state.journal = folder / fmt::format("journal-{}.log", writer);
  if (writer == 0) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail(folder, error.value());
    const auto known = read_id(folder);
    if (known) check_same(*known, state.id, folder);
    state.take_lock();
    if (known && open == Open::fresh)
      refuse("sweep-exists", fmt::format("'{}' holds results of this study already", folder.string()),
             "give --resume to run the rows that are missing, or name another folder");
    if (!known) {
      refuse_strays(folder);
      write_id(folder, state.id);
    }
  }
  for (const fs::path& journal : journals_of(folder)) state.before.read(journal, state.id.rows);
  state.open_journal();
}

SweepFolder::~SweepFolder() = default;

bool SweepFolder::done(std::uint64_t row) const { return state_->before.has(row); }
std::uint64_t SweepFolder::done_count() const { return state_->before.count(); }

void SweepFolder::append(std::uint64_t row, double seconds, std::string_view result) {
  const std::string line = fmt::format("{}\t{:.6f}\t{}\n", row, seconds, result);
  const std::lock_guard guard{state_->mutex};
  const off_t begin = ::lseek(state_->out, 0, SEEK_CUR);
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t written = ::write(state_->out, line.data() + at, line.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // Remove the partial line, so that other threads' lines do not follow it.
      if (::ftruncate(state_->out, begin) == 0) ::lseek(state_->out, begin, SEEK_SET);
      fail(state_->journal, error, "finished rows are kept: use --resume to run the others");
    }
    at += static_cast<std::size_t>(written);
  }
}

SweepFolder::Count SweepFolder::finish() {
  Entries entries;
  for (const fs::path& journal : journals_of(state_->folder)) entries.read(journal, state_->id.rows);
  return write_results(entries, state_->id, state_->folder);
}

SweepFolder::Count merge_sweeps(const std::vector<fs::path>& folders, const fs::path& to) {
  std::optional<StudyId> id;
  Entries entries;
  for (const fs::path& folder : folders) {
    const auto found = read_id(folder);
    if (!found)
      refuse("no-sweep", fmt::format("'{}' does not hold a sweep", folder.string()),
             "name folders that `trainyard sweep` wrote");
    if (id) check_same(*found, *id, folder);
    id = found;
    for (const fs::path& journal : journals_of(folder)) entries.read(journal, id->rows);
  }
  if (!id) refuse("no-sweep", "there are no folders to merge", "name folders that `trainyard sweep` wrote");
  std::error_code error;
  fs::create_directories(to, error);
  if (error) fail(to, error.value());
  if (read_id(to))
    refuse("sweep-exists", fmt::format("'{}' holds a sweep already", to.string()), "name another folder");
  OutputFile journal{to / "journal-0.log"};
  entries.for_each([&](std::uint64_t row, const Entry& entry) {
    journal.stream() << row << '\t' << entry.seconds << '\t' << entry.result << '\n';
  });
  SweepFolder::Count count = write_results(entries, *id, to);
  journal.commit();
  write_id(to, *id);  // marks the folder as complete
  return count;
}

}  // namespace trainyard
