#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "print/result_json.hpp"
#include "sweep_run.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/sweep/sweep_folder.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

struct MergeVerb {
  std::vector<std::string> folders;
  std::string to;

  void declare(OptionSet& set) {
    set.operands(folders, "FOLDER...", "result folders of the shards of one study",
                 "trainyard merge shard-1 shard-2 -o results");
    set.text("-o,--output", to, "FOLDER", "folder for all their rows, as one sweep would have written them");
    set.check([this] {
      if (to.empty()) throw UsageError("merge needs -o FOLDER", "for example -o results");
    });
  }

  int run(Console& console) const {
    const SweepFolder::Count count = merge_sweeps({folders.begin(), folders.end()}, to);
    copy_schedules();
    if (console.json()) {
      Json object = begin_result("merge");
      object["rows"] = count.rows;
      object["of"] = count.of;
      object["errors"] = count.errors;
      console.print(result_text(object));
    }
    console.note(
        fmt::format("wrote {0}/results.jsonl, {0}/results.csv, {0}/times.csv, {0}/index.html ({1} of {2} rows{3})", to,
                    count.rows, count.of, errors_text(count)));
    return kDone;
  }

 private:
  /// Copies the schedules of `yard run`, which the merged claims name by their path within the folder.
  void copy_schedules() const {
    namespace fs = std::filesystem;
    constexpr auto kHow = fs::copy_options::recursive | fs::copy_options::skip_existing;
    for (const std::string& folder : folders) {
      const fs::path schedules = fs::path{folder} / "schedules";
      std::error_code error;
      if (!fs::exists(schedules, error)) continue;
      fs::copy(schedules, fs::path{to} / "schedules", kHow, error);
      if (error)
        refuse("file", fmt::format("cannot copy '{}' to '{}': {}", schedules.string(), to, error.message()),
               "copy the folder by hand: `yard check` reads the schedules");
    }
  }
};

}  // namespace

const Verb kMerge{"merge", "puts the shards of a sweep together", "trainyard merge shard-1 shard-2 -o results",
                  trainyard::program::declare<MergeVerb>};

}  // namespace trainyard::program
