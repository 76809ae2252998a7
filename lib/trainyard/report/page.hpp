#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "trainyard/study/run.hpp"

namespace trainyard {

/// A line of small print under the title: {"costs", "graph 100 %"}.
struct PageFact {
  std::string name, value;
};

struct PageInput {
  std::string title = {};            // "resnet50 on 4xV100"; empty: made of the models and clusters
  std::vector<PageFact> facts = {};  // beside those that the page finds itself: ops, tensors, devices
  /// At least one; the page opens on the best that fits. Each is a row of the comparison and a timeline to choose,
  /// or a row alone where its timeline has no spans. A measured run is drawn beneath the simulated one before it. Runs
  /// that share one Problem also share its names in the file.
  std::vector<const Run*> runs = {};
  /// The name of each run's model; empty: the name of its graph. Runs of one model on one cluster are compared.
  std::vector<std::string> models = {};
};

/// Writes one HTML file that needs nothing beside itself: no network, no other file. It holds summary cards, the
/// comparison as a sortable table, and for each drawn run a timeline of devices and links over a strip of memory that
/// pans and zooms; without scripts it still shows the table and a drawing of the fastest run. The same input gives
/// the same bytes.
///
/// Names are written as text wherever they appear: no name can add markup or script to the page.
void write_page(const PageInput& input, std::ostream& out);
void write_page(std::span<const Run> runs, std::ostream& out, const std::string& title = {});
inline void write_page(const Run& run, std::ostream& out) { write_page({&run, 1}, out); }

/// A still drawing of the run as an SVG file: one row per device, and per link in use.
void write_svg(const Run& run, std::ostream& out);

}  // namespace trainyard
