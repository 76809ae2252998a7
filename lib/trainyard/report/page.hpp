#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// One row of the comparison, and one choice of the timeline: what a placer answered to a problem.
struct PageRun {
  std::string placer;  // how the row is called; distinct within one model and cluster
  Problem problem;     // runs that share one Problem (a copy is cheap) also share its names in the file
  Schedule schedule;
  Timeline timeline;
  Nanoseconds lower_bound{};  // no schedule of this problem is faster; 0: unknown
  std::string bound_name = {};
  std::optional<double> search_seconds = {};  // how long the placer thought
  bool optimal = false;                       // the placer proved that nothing is faster
  bool drawn = true;                          // false: the row alone, without its timeline
  bool measured = false;                      // not simulated: its times meet no rule, and it has no critical path
  std::string beneath = {};                   // another run of the same problem: its timeline is drawn below this one
};

/// A line of small print under the title: {"costs", "graph 100 %"}.
struct PageFact {
  std::string name, value;
};

struct PageInput {
  std::string title;                 // "resnet50 on 4xV100"; empty: made of the first run's model and cluster
  std::vector<PageFact> facts = {};  // beside those that the page finds itself: ops, tensors, devices
  std::vector<PageRun> runs;         // at least one; the page opens on the fastest that fits
};

/// Writes one HTML file that needs nothing beside itself: no network, no other file. It holds summary cards, the
/// comparison as a sortable table, and for each drawn run a timeline of devices and links over a strip of memory that
/// pans and zooms; without scripts it still shows the table and a drawing of the fastest run. The same input gives
/// the same bytes.
///
/// Names are written as text wherever they appear: no name can add markup or script to the page.
void write_page(const PageInput& input, std::ostream& out);

}  // namespace trainyard
