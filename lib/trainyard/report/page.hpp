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

/// What a prediction was worth, for the page: errors are (predicted - measured) / measured, as shares.
struct PageValidation {
  std::size_t run = 0;                            // of PageInput::runs: the predicted one
  std::string verdict = {}, why = {}, text = {};  // "pass", in words, and what was measured in words
  Nanoseconds measured = {};                      // what the total error is of
  double total_error = 0, structural_error = 0, op_time_error = 0, link_error = 0;
  double total_tolerance = 0, structural_tolerance = 0;  // what may be off; 0: that part is not judged
  double noise_floor = 0;                                // of the machine
  struct Op {
    OpId op = {};
    Nanoseconds predicted = {}, measured = {};
    std::string source = {};  // what its predicted time is known by
  };
  std::vector<Op> ops = {};  // those that are furthest off first
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
  std::string title = {};            // "resnet50 on 4xV100"; empty: made of the models and clusters
  std::vector<PageFact> facts = {};  // beside those that the page finds itself: ops, tensors, devices
  /// One run at least; the page opens on the best that fits. Each is a row of the comparison and a timeline to choose,
  /// or a row alone where its timeline has no spans. A measured run is drawn beneath the simulated one before it. Runs
  /// that share one Problem also share its names in the file.
  std::vector<const Run*> runs = {};
  /// The name of each run's model; empty: the name of its graph. Runs of one model on one cluster are compared.
  std::vector<std::string> models = {};
  /// Runs whose predictions were held against measurements.
  std::vector<PageValidation> validations = {};
  std::string ranking = {};  // how well several placements were predicted in order, in a sentence; or empty
};

/// Writes one HTML file that needs nothing beside itself: no network, no other file. It holds summary cards, the
/// comparison as a sortable table, and for each drawn run a timeline of devices and links over a strip of memory that
/// pans and zooms; without scripts it still shows the table and a drawing of the fastest run. The same input gives
/// the same bytes. Throws InputError: "no-runs" where there is none, or a null one; "unknown-run" and "range" of
/// validations; and of drawn runs as check_placement() and check_transfers() do.
///
/// Names are written as text wherever they appear: no name can add markup or script to the page.
void write_page(const PageInput& input, std::ostream& out);
void write_page(std::span<const Run> runs, std::ostream& out, const std::string& title = {});
inline void write_page(const Run& run, std::ostream& out) { write_page({&run, 1}, out); }

/// Writes a drawing of the run as an SVG file: a row per device and per link in use, by the phases of ops.
/// Throws InputError as check_sizes() and check_transfers() do: "size" where the run keeps no timeline.
void write_svg(const Run& run, std::ostream& out);

}  // namespace trainyard
