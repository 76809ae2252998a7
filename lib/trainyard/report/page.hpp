#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard {

/// A line of small print under the title: {"costs", "graph 100 %"}.
struct PageFact {
  std::string name = {}, value = {};
};

/// Validation of a predicted run against a measurement. Errors are shares: (predicted - measured) / measured.
struct PageValidation {
  std::size_t run = 0;                            // the predicted run: index into PageInput::runs
  std::string verdict = {}, why = {}, text = {};  // "pass"; its reason; a description of the measurement
  Nanoseconds measured = {};                      // the measured step time that the total error refers to
  double total_error = 0, structural_error = 0, op_time_error = 0, link_error = 0;
  double total_tolerance = 0, structural_tolerance = 0;  // largest accepted error; 0: that part is not judged
  double noise_floor = 0;                                // of the machine
  struct Op {
    OpId op = {};
    Nanoseconds predicted = {}, measured = {};
    std::string source = {};  // cost source of its predicted time
  };
  std::vector<Op> ops = {};  // largest deviation first
  struct Link {
    DeviceId from = {}, to = {};
    std::int64_t transfers = 0;
    Nanoseconds predicted = {}, measured = {};  // sums over a step
  };
  std::vector<Link> links = {};
  struct DevicePeaks {
    Bytes predicted = {}, measured = {};
    Nanoseconds gap = {};  // between ops
  };
  IdMap<DeviceId, DevicePeaks> devices = {};
};

struct PageInput {
  std::string title = {};            // "resnet50 on 4xV100"; empty: generated from the models and clusters
  std::vector<PageFact> facts = {};  // added to the page's own facts: ops, tensors, devices
  /// At least one run. The page opens on the run of the first validation, or else on the best run that fits. Each run
  /// is a row of the comparison and a timeline to choose, or only a row if its timeline has no spans. A measured run is
  /// drawn beneath the simulated run before it, if they share a graph. Such runs also share its names in the file.
  std::vector<const Run*> runs = {};
  /// Model name of each run; if empty, the names of the graphs. Runs of one model on one cluster are compared.
  std::vector<std::string> models = {};
  /// Comparisons of predicted runs with measurements.
  std::vector<PageValidation> validations = {};
  std::string notes = {};    // lines beneath the comparison, such as why a placer has no row; may be empty
  std::string ranking = {};  // sentence on how well the order of several placements was predicted; may be empty
};

/// Writes one self-contained HTML file: it loads nothing from the network or other files. It shows summary cards, the
/// comparison as a sortable table, and for each drawn run a timeline of devices and links above a memory strip, which
/// pans and zooms. Without scripts it still shows the table and a drawing of the run that the page opens on. Equal
/// inputs give equal bytes. Throws InputError: "no-runs" if there is no run or a null one; "unknown-run" and "range"
/// for invalid validations; and for drawn runs as check_placement() and check_transfers() do.
///
/// Names are escaped wherever they appear: no name can add markup or script to the page.
void write_page(const PageInput& input, std::ostream& out);
void write_page(std::span<const Run> runs, std::ostream& out, const std::string& title = {});
inline void write_page(const Run& run, std::ostream& out) { write_page({&run, 1}, out); }

/// Writes an SVG Gantt chart of the run: a row per device and per link in use, coloured by the phase of the ops.
/// Throws InputError as check_sizes() and check_transfers() do: "size" if the run keeps no timeline.
void write_svg(const Run& run, std::ostream& out);

}  // namespace trainyard
