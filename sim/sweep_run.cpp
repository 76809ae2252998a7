#include "sweep_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <mutex>

#include "interrupt.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace {

/// Parses --shard: "2/4" is the second of four.
Shard parse_shard(const std::string& text, const std::string& option) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos)
    throw UsageError(fmt::format("{}: '{}' is not a shard like 2/4", option, text),
                     "give I/N: 2/4 is the second of four shards");
  const auto index = static_cast<std::uint64_t>(whole_number(text.substr(0, slash), option, 1));
  const auto count = static_cast<std::uint64_t>(whole_number(text.substr(slash + 1), option, 1));
  if (index > count)
    throw UsageError(fmt::format("{}: there is no shard {} of {}", option, index, count),
                     fmt::format("give 1/{0} to {0}/{0}", count));
  return {index - 1, count};
}

/// Progress of a sweep: rows done, rate, time left. Thread-safe.
class SweepProgress {
 public:
  SweepProgress(std::uint64_t rows, Console& console) : rows_(rows), console_(console) {}

  /// Reports that about `done` rows are done.
  void at(std::uint64_t done) {
    const std::lock_guard lock{mutex_};
    const auto now = std::chrono::steady_clock::now();
    if (begun_ == 0) begun_ = done;
    if (now - shown_ < std::chrono::milliseconds{100} || done <= begun_) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(done - begun_) / seconds;
    const Nanoseconds left = nanoseconds_from_seconds(static_cast<double>(rows_ - done) / rate);
    console_.progress(fmt::format("{} of {} rows, {:.3g} a second, {} left", done, rows_, rate, format_time(left)));
  }

 private:
  const std::uint64_t rows_;
  Console& console_;
  std::mutex mutex_;
  std::uint64_t begun_ = 0;  // rows up to the first report, mostly done before this run
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace

void SweepOptions::declare(OptionSet& set) {
  set.flag("--resume", resume, "continues a run that ended early or was killed");
  set.value("--shard", shard, "I/N", "runs only every N-th row, starting at the I-th (trainyard merge joins shards)",
            parse_shard);
  set.value("--threads", threads, "N", "number of rows that run at once (default: one per core)", thread_count);
}

std::string errors_text(const SweepFolder::Count& count) {
  if (count.errors == 0) return "";
  return fmt::format(", {} failed (first: {})", count.errors, printable(count.first_error));
}

std::optional<SweepCount> run_rows(const Study& study, const SweepOptions& options, const RunRow& run,
                                   Console& console) {
  const InterruptGuard guard;  // an interrupt keeps finished rows
  Ranks ranks;
  if (ranks.count() > 1 && ranks.rank() == 0)
    console.note(fmt::format("{} ranks; if one dies, --resume runs the rows that it did not finish", ranks.count()));
  const auto open = options.resume ? SweepFolder::Open::resume : SweepFolder::Open::fresh;
  std::optional<SweepFolder> results;
  if (ranks.rank() == 0) results.emplace(options.folder, study, open);
  ranks.meet();  // rank 0 has made the folder
  if (ranks.rank() > 0) results.emplace(options.folder, study, open, ranks.rank());
  ranks.meet();  // all ranks know the earlier rows

  const Shard shard = options.shard;
  SweepProgress progress{(study.size() + shard.count - 1) / shard.count, console};
  const unsigned workers =
      ranks.count() > 1 ? options.threads.value_or(1) : trainyard::thread_count(options.threads.value_or(0));
  parallel_for(workers, workers, [&](std::size_t) {
    for (std::uint64_t turn = ranks.next(); !interrupted(); turn = ranks.next()) {
      const std::uint64_t row = shard.first + turn * shard.count;
      if (row >= study.size()) return;
      if (results->done(row)) continue;
      const auto start = std::chrono::steady_clock::now();
      const std::string result = run(row);
      if (interrupted()) return;  // a search was cut short: the row is not done
      results->append(row, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), result);
      if (ranks.rank() == 0) progress.at(turn + 1);
    }
  });
  console.progress("");
  ranks.meet();  // all journals are complete
  if (ranks.rank() > 0) return std::nullopt;
  const std::uint64_t before = results->done_count();
  return SweepCount{results->finish(), before};
}

}  // namespace trainyard::program
