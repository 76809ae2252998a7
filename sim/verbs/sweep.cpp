#include <fmt/format.h>

#include "interrupt.hpp"
#include "print/result_json.hpp"
#include "sweep_row.hpp"
#include "sweep_run.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

struct SweepVerb {
  std::vector<std::string> studies;
  SweepOptions options;

  void declare(OptionSet& set) {
    set.operands(studies, "STUDY", "a study file (TOML)", "trainyard sweep study.toml -o results");
    set.text("-o,--output", options.folder, "FOLDER", "folder for the results: JSON lines, CSV, and a page of curves");
    options.declare(set);
    set.check([this] {
      if (options.folder.empty()) throw UsageError("sweep needs -o FOLDER", "for example -o results");
    });
  }

  int run(Console& console) const {
    const std::vector<std::string> keys = study_keys();
    const Study study = read_study(studies.front(), keys);
    const InterruptGuard guard;
    RowRunner runner;
    const auto count = run_rows(
        study, options, [&](std::uint64_t row) { return runner.run(row, study.row(row)); }, console);
    for (const std::string& note : runner.notes()) console.warn(note);
    return count ? report(study, *count, console) : kDone;
  }

 private:
  int report(const Study& study, const SweepCount& count, Console& console) const {
    if (console.json()) {
      Json object = begin_result("sweep");
      object.update({{"study", study.name()},
                     {"rows", study.size()},
                     {"done", count.rows},
                     {"done_now", count.rows - count.before},
                     {"done_before", count.before},
                     {"errors", count.errors}});
      console.print(result_text(std::move(object), console.warnings()));
    } else {
      std::string text =
          fmt::format("{} of {} rows of '{}' are in {}", count.rows, study.size(), study.name(), options.folder);
      if (count.before > 0) text += fmt::format(", {} from before", count.before);
      console.print(text + errors_text(count) + "\n");
    }
    console.note(
        fmt::format("wrote {0}/results.jsonl, {0}/results.csv, {0}/times.csv, {0}/index.html (open it in any browser)",
                    options.folder));
    return exit_code(kDone);
  }
};

}  // namespace

const Verb kSweep{"sweep", "runs a study: every row of a grid once; can be resumed after a kill",
                  "trainyard sweep study.toml -o results --resume", trainyard::program::declare<SweepVerb>};

}  // namespace trainyard::program
