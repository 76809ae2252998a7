#include "search.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "inputs.hpp"
#include "interrupt.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"

namespace trainyard::program {

unsigned chosen_threads(const Arguments& arguments) {
  if (arguments.threads.empty()) return 0;
  return static_cast<unsigned>(std::min<std::int64_t>(whole_number(arguments.threads, "--threads", 1), 1024));
}

double time_limit(const std::string& text) {
  const bool minutes = text.size() > 1 && text.back() == 'm';
  try {
    return seconds(parse_time(minutes ? text + "in" : text, "--time"));
  } catch (const InputError& error) {
    throw UsageError(error);
  }
}

void add_search_options(PlaceOptions& options, const Arguments& arguments, bool searches, const std::string& who,
                        Console& console) {
  if (!searches) {
    const std::string help = "`trainyard placers` says which do; auto is one";
    if (!arguments.time.empty()) throw UsageError(fmt::format("--time: {} does not search", who), help);
    if (!arguments.evaluations.empty()) throw UsageError(fmt::format("--evaluations: {} does not search", who), help);
    if (!arguments.threads.empty() && arguments.noise.empty())
      throw UsageError(fmt::format("--threads: {} does not search, and there is no --noise", who), help);
    return;
  }
  if (!arguments.time.empty()) options.budget.seconds = time_limit(arguments.time);
  if (!arguments.evaluations.empty())
    options.budget.evaluations = static_cast<std::uint64_t>(whole_number(arguments.evaluations, "--evaluations", 0));
  options.threads = chosen_threads(arguments);
  options.stop = interrupted;
  if (!console.shows_progress()) return;
  options.on_progress = [&console](const SearchProgress& progress) {
    const double best = static_cast<double>(progress.best.count);
    const double gap = best > 0 ? 1 - static_cast<double>(progress.lower_bound.count) / best : 0;
    console.progress(fmt::format("best {}{}, bound {}, gap {} ({} evaluations)", format_time(progress.best),
                                 progress.fits ? "" : " (does not fit)", format_time(progress.lower_bound),
                                 percent(gap), with_separators(static_cast<std::int64_t>(progress.evaluations))));
  };
}

}  // namespace trainyard::program
