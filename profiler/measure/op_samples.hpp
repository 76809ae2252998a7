#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cost/profile.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

inline void put(Samples& samples, Nanoseconds time, const std::string& why_not) {
  if (why_not.empty())
    samples.kept.push_back(time);
  else
    samples.dropped.push_back({time, why_not});
}

/// Times of one op. A sample is disturbed if other work had the core for more than 1 % of it, and is then dropped. If
/// fewer than two undisturbed ones exist, disturbed ones are kept net of the time that other work took, except those
/// that other work is said to have taken whole (the system counts in ticks). If nothing is left, the shortest is kept
/// as it is.
class OpSamples {
 public:
  void put(Nanoseconds time, Nanoseconds lost) {
    if (lost.count * 100 > time.count)
      disturbed_.emplace_back(time, lost);
    else
      undisturbed_.push_back(time);
  }
  std::size_t undisturbed() const { return undisturbed_.size(); }
  bool empty() const { return undisturbed_.empty() && disturbed_.empty(); }

  /// Takes all samples out. Details note how disturbed ones were treated.
  Samples take(Details& details) {
    Samples samples{.kept = std::move(undisturbed_), .dropped = {}};
    const bool net = samples.kept.size() < std::min(kLeast, disturbed_.size());
    std::size_t nets = 0;
    for (const auto& [time, lost] : disturbed_) {
      if (net && lost < time) {
        samples.kept.push_back(time - lost);
        ++nets;
      } else {
        samples.dropped.push_back({time, "other-work"});
      }
    }
    if (samples.kept.empty() && !samples.dropped.empty()) {
      const auto least = std::ranges::min_element(samples.dropped, {}, &DroppedSample::time);
      samples.kept.push_back(least->time);
      samples.dropped.erase(least);
      details["disturbed"] = "other work disturbed all samples: the shortest is kept";
    }
    if (nets > 0)
      details["disturbed"] =
          fmt::format("time lost to other work is subtracted from {} of {} samples", nets, samples.kept.size());
    return samples;
  }

 private:
  static constexpr std::size_t kLeast = 2;
  std::vector<Nanoseconds> undisturbed_;
  std::vector<std::pair<Nanoseconds, Nanoseconds>> disturbed_;  // time, lost
};

/// Measurement of an op that ran on one thread of the device, while no other device was busy.
inline OpMeasurement op_measurement(const Problem& problem, OpId op, DeviceId device, MeasureMode mode,
                                    std::string source, OpSamples& samples) {
  const Graph& graph = problem.graph();
  OpMeasurement measured{.graph = graph.name(),
                         .op = std::string{graph.name(op)},
                         .type = graph.type(op),
                         .signature = graph.signature(op),
                         .device = problem.cluster().device(device).name,
                         .mode = mode,
                         .flops = graph.flops(op),
                         .bytes = graph.bytes_accessed(op),
                         .threads = 1,
                         .source = std::move(source)};
  measured.samples = samples.take(measured.details);
  return measured;
}

}  // namespace trainyard
