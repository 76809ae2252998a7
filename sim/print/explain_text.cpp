#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "console.hpp"
#include "print/explain.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/run_text.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::program {
namespace {

std::string share_text(Nanoseconds part, Nanoseconds whole) {
  return percent(whole.count > 0 ? static_cast<double>(part.count) / static_cast<double>(whole.count) : 0);
}

constexpr std::size_t kName = 44;  // longest op name shown

class Text {
  using Align = TextTable::Align;

 public:
  Text(const ExplainResult& result, const TextFormat& format)
      : result_(result),
        format_(format),
        run_(result.run),
        why_(result.explanation),
        graph_(run_.problem.graph()),
        cluster_(run_.problem.cluster()),
        makespan_(run_.timeline.makespan) {}

  std::string whole() const {
    std::string text = problem_title(run_.model, run_.problem, run_.ops) + "\n\n";
    text += head() + "\n" + shares() + "\n" + path() + "\n" + waits() + devices() + "\n" + what_ifs();
    return text + wrapped(sources_text(run_.summary), format_.paragraph());
  }

 private:
  std::string device(DeviceId id) const { return cluster_.device(id).name; }

  std::string head() const {
    std::size_t ops = 0, waiting = 0;
    Nanoseconds for_device{}, for_link{};  // longest waits; a sum would count overlaps
    for (const PathTask& task : why_.path) {
      const bool is_op = !task.step.op.is_none();
      ops += is_op;
      waiting += task.waited() > Nanoseconds{0};
      Nanoseconds& longest = is_op ? for_device : for_link;
      longest = std::max(longest, task.waited());
    }
    TextTable table{{{""}, {""}}};
    table.fit(format_);
    table.add_row({"step time", format_time(makespan_) + (run_.summary.fits ? "" : " (does not fit in memory)")});
    table.add_row({"lower bound", fmt::format("{} ({})", format_time(run_.summary.bound.value),
                                              bound_name(run_.summary.bound, run_.schedule))});
    std::string parts =
        fmt::format("{}: {} ({})", counted(ops, "op"), format_time(why_.ops), share_text(why_.ops, makespan_));
    if (ops < why_.path.size())
      parts += fmt::format("; {}: {} ({})", counted(why_.path.size() - ops, "transfer"), format_time(why_.transfers),
                           share_text(why_.transfers, makespan_));
    if (why_.gaps > Nanoseconds{0})
      parts += fmt::format("; gaps: {} ({})", format_time(why_.gaps), share_text(why_.gaps, makespan_));
    table.add_row({"critical path", parts});
    std::string waits = waiting == 0
                            ? "each starts the moment it is ready"
                            : fmt::format("{} of them {} ready earlier", waiting, waiting == 1 ? "was" : "were");
    for (const auto& [longest, what] : {std::pair{for_device, "device"}, std::pair{for_link, "link"}})
      if (longest > Nanoseconds{0}) waits += fmt::format(", by up to {} for a {}", format_time(longest), what);
    table.add_row({"", waits});
    return table.text();
  }

  std::string shares() const {
    TextTable table{{{"on the critical path"},
                     {"tasks", Align::right, 1},
                     {"time", Align::right},
                     {"of step", Align::right, 2},
                     {"longest wait", Align::right, 3}}};
    table.fit(format_);
    for (std::size_t i = 0; i < std::min(why_.shares.size(), result_.top); ++i) {
      const PathShare& share = why_.shares[i];
      table.add_row({share.to.is_none() ? device(share.device) : device(share.device) + " -> " + device(share.to),
                     with_separators(share.tasks), format_time(share.time), share_text(share.time, makespan_),
                     format_time(share.waited)});
    }
    return table.text() + more(why_.shares.size(), "place");
  }

  static std::string more(std::size_t all, std::size_t shown, std::string_view word) {
    return all > shown ? fmt::format(" ... and {} (--json lists all)\n", counted(all - shown, word)) : "";
  }
  std::string more(std::size_t all, std::string_view word) const { return more(all, result_.top, word); }

  /// The longest runs of tasks on the critical path, in order of time.
  std::string path() const {
    const std::vector<PathRun> runs = path_runs(run_.schedule, run_.timeline, why_);
    std::vector<std::size_t> shown(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) shown[i] = i;
    sort_by_descending(shown, [&](std::size_t i) { return runs[i].end - runs[i].start; });
    if (shown.size() > result_.top) shown.resize(result_.top);
    std::ranges::sort(shown);
    TextTable table{{{"from", Align::right},
                     {"to", Align::right, 1},
                     {"of step", Align::right, 2},
                     {"on"},
                     {shown.size() < runs.size() ? "the longest pieces of the critical path" : "the critical path"}}};
    table.fit_paragraphs(format_);
    for (const std::size_t i : shown) {
      const PathRun& run = runs[i];
      const PathTask& first = why_.path[run.first];
      table.add_row({format_time(run.start), format_time(run.end), share_text(run.end - run.start, makespan_),
                     place_of(first), tasks_text(run)});
    }
    return table.text() + more(runs.size(), "piece");
  }

  std::string place_of(const PathTask& task) const {
    if (!task.step.op.is_none()) return device(run_.schedule.placement[task.step.op]);
    const Transfer& transfer = run_.timeline.transfers[task.step.transfer];
    return device(transfer.from) + " -> " + device(transfer.to);
  }

  std::string name_of(OpId op, std::size_t transfer) const {
    if (!op.is_none()) return shortened(graph_.name(op), kName);
    const Transfer& sent = run_.timeline.transfers[transfer];
    return fmt::format("{} ({})", shortened(graph_.name(sent.tensor), kName), format_bytes(sent.bytes));
  }

  std::string tasks_text(const PathRun& run) const {
    const PathStep &first = why_.path[run.first].step, &last = why_.path[run.last].step;
    std::string text = name_of(first.op, first.transfer);
    if (run.last > run.first)
      text = fmt::format("{}: {} to {}", counted(run.last - run.first + 1, first.op.is_none() ? "transfer" : "op"),
                         text, name_of(last.op, last.transfer));
    if (run.waited > Nanoseconds{0})
      text += fmt::format(", {} {}", run.last > run.first ? "longest wait" : "waited", format_time(run.waited));
    return text;
  }

  std::string waits() const {
    if (result_.waits.empty()) return "";
    TextTable table{{{"waited", Align::right}, {"for"}, {"the longest waits, and what went before"}}};
    table.fit_paragraphs(format_);
    for (const Wait& wait : result_.waits) {
      const PathTask& task = why_.path[wait.task];
      const bool is_op = !task.step.op.is_none();
      std::string what = name_of(task.step.op, task.step.transfer) + ": ";
      for (std::size_t i = 0; i < wait.occupants.size(); ++i) {
        const Occupant& each = wait.occupants[i];
        what += fmt::format("{}{} {}", i > 0 ? ", " : "", name_of(each.op, each.transfer), format_time(each.time));
      }
      if (task.tasks_meanwhile > wait.occupants.size())
        what += fmt::format(", and {} more", task.tasks_meanwhile - wait.occupants.size());
      if (const Nanoseconds idle = task.waited() - task.busy_meanwhile; idle > Nanoseconds{0})
        what += fmt::format("{}idle {}", wait.occupants.empty() ? "" : "; ", format_time(idle));
      const std::string where = is_op                    ? place_of(task)
                                : task.channel.is_none() ? place_of(task)
                                                         : channel_title(cluster_.channel(task.channel));
      table.add_row({format_time(task.waited()), where, what});
    }
    return table.text() + "\n";
  }

  std::string devices() const {
    TextTable table{{{"device"},
                     {"runs ops", Align::right},
                     {"awaits a transfer", Align::right},
                     {"idle, nothing sent", Align::right, 1},
                     {"done", Align::right, 2}}};
    table.fit(format_);
    constexpr std::size_t kMost = 32;
    for (const DeviceId id : run_.problem.devices()) {
      if (id.index() == kMost) break;
      const DeviceTime& time = why_.devices[id];
      const auto cell = [&](Nanoseconds part) {
        return fmt::format("{} ({})", format_time(part), share_text(part, makespan_));
      };
      table.add_row({device(id), cell(time.running), cell(time.awaiting), cell(time.idle), cell(time.done)});
    }
    return table.text() + more(run_.problem.device_count(), kMost, "device");
  }

  std::string what_ifs() const {
    const bool again =
        std::ranges::any_of(result_.what_ifs, [](const auto& each) { return each.placed_again.has_value(); });
    const bool memory =
        !run_.summary.fits || std::ranges::any_of(result_.what_ifs, [](const auto& each) { return !each.fits; });
    std::vector<TextTable::Column> columns{{"what if"}, {"step time", Align::right}, {"saves", Align::right}};
    if (memory) columns.push_back({"fits"});
    if (again) columns.push_back({"placed again", Align::right});
    TextTable table{columns};
    table.fit(format_);
    for (std::size_t i = 0; i < std::min(result_.what_ifs.size(), result_.top); ++i) {
      const WhatIfResult& each = result_.what_ifs[i];
      const Nanoseconds saved = makespan_ - each.makespan;
      std::vector<std::string> row{
          each.what_if.name, format_time(each.makespan),
          saved < Nanoseconds{0} ? "-" + share_text(Nanoseconds{0} - saved, makespan_) : share_text(saved, makespan_)};
      if (memory) row.push_back(each.fits ? "yes" : "no");
      if (again) row.push_back(each.placed_again ? format_time(*each.placed_again) : "");
      table.add_row(row);
    }
    std::string text = table.text() + more(result_.what_ifs.size(), "change");
    if (run_.summary.fits)
      text += wrapped(fmt::format("More memory would change nothing for this schedule: it fits ({} on {}).",
                                  peak_text(run_.problem, run_.summary), device(run_.summary.tightest)),
                      format_.paragraph());
    return text;
  }

  const ExplainResult& result_;
  const TextFormat& format_;
  const RunResult& run_;
  const Explanation& why_;
  const Graph& graph_;
  const Cluster& cluster_;
  const Nanoseconds makespan_;
};

}  // namespace

std::string explain_text(const ExplainResult& result, const TextFormat& format) { return Text{result, format}.whole(); }

}  // namespace trainyard::program
