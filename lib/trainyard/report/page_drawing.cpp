#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>

#include "trainyard/core/text.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/report/page_parts.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/account/lanes.hpp"

namespace trainyard::detail {
namespace {

constexpr double kWidth = 1200, kLeft = 170, kRowHeight = 20, kGap = 4, kTop = 22;
constexpr std::string_view kOpColours[] = {"#4477aa", "#ee6677", "#ccbb44"};        // by phase
constexpr std::string_view kTransferColours[] = {"#66ccee", "#aa3377", "#999999"};  // by the producer's phase
constexpr double kNarrowest = 0.5;     // least width and visible gap, in SVG units
constexpr std::size_t kNameRoom = 26;  // characters that fit to the left of the rows

/// The spans of one row as rectangles. Neighbours of one colour merge if the gap between them is below kNarrowest.
class Row {
 public:
  Row(std::string& text, double y) : text_(text), y_(y) {}
  ~Row() { finish(); }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  void add(double from, double to, std::string_view colour) {
    if (colour == colour_ && from - to_ < kNarrowest) {
      to_ = to;
      return;
    }
    if (!colour_.empty() && to - to_ < kNarrowest) return;  // too narrow to be visible
    finish();
    from_ = from;
    to_ = to;
    colour_ = colour;
  }

 private:
  void finish() {
    if (colour_.empty()) return;
    fmt::format_to(std::back_inserter(text_), R"(<rect x="{:.1f}" y="{}" width="{:.1f}" height="{}" fill="{}"/>)",
                   from_, y_, std::max(kNarrowest, to_ - from_), kRowHeight, colour_);
  }

  std::string& text_;
  double y_, from_ = 0, to_ = 0;
  std::string_view colour_;
};

}  // namespace

std::string gantt_svg(const Run& run) {
  const Graph& graph = run.problem.graph();
  const double scale = (kWidth - kLeft) / static_cast<double>(std::max<std::int64_t>(1, run.timeline.makespan.count));
  const auto x = [&](Nanoseconds time) { return kLeft + static_cast<double>(time.count) * scale; };
  std::string body;
  double y = kTop;
  for (const Lane& lane : drawn_lanes(run)) {
    if (lane.kind != Lane::Kind::device && lane.spans.empty()) continue;
    fmt::format_to(std::back_inserter(body), R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kLeft - 8, y + 14,
                   html_text(shortened(lane.name, kNameRoom)));
    {
      Row row{body, y};
      for (const std::size_t index : lane.spans) {
        if (lane.kind == Lane::Kind::device) {
          const Span span = run.timeline.ops[OpId{index}];
          row.add(x(span.start), x(span.end), kOpColours[static_cast<std::size_t>(graph.phase(OpId{index}))]);
        } else {
          const Transfer& transfer = run.timeline.transfers[index];
          const auto phase = static_cast<std::size_t>(graph.phase(graph.producer(transfer.tensor)));
          row.add(x(transfer.start), x(transfer.end), kTransferColours[phase]);
        }
      }
    }
    body += '\n';
    y += kRowHeight + kGap;
  }
  std::string legend;
  for (std::size_t i = 0; i < 3; ++i)
    legend +=
        fmt::format(R"(<rect x="{0}" y="{1}" width="11" height="11" fill="{2}"/><text x="{3}" y="{4}">{5}</text>)",
                    kLeft + 110.0 * static_cast<double>(i), y + 6, kOpColours[i],
                    kLeft + 110.0 * static_cast<double>(i) + 16, y + 15, name_of(static_cast<Phase>(i)));
  return fmt::format(
      R"(<svg class="gantt" viewBox="0 0 {} {}" role="img" aria-label="Timeline: when each device and link works">)"
      "\n"
      R"(<text x="{}" y="14">0</text><text x="{}" y="14" text-anchor="end">{}</text>)"
      "\n{}{}\n</svg>",
      kWidth, y + 24, kLeft, kWidth, time_text(run.timeline.makespan), body, legend);
}

}  // namespace trainyard::detail

namespace trainyard {

void write_svg(const Run& run, std::ostream& out) {
  check_sizes(run.problem, run.schedule.placement, run.timeline);
  check_transfers(run.problem, run.timeline);
  constexpr std::string_view kOpening = "<svg ";
  const std::string drawing = detail::gantt_svg(run);
  out << R"(<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" style="background:#fff" )"
      << std::string_view{drawing}.substr(kOpening.size()) << "\n";
}

}  // namespace trainyard
