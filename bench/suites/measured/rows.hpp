#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::bench {

/// One published training run. Texts and numbers are empty if the source does not give them.
struct MeasuredRow {
  std::string id, model, family, gpu_kind, precision, framework, schedule, recompute, interconnect, split, where;
  std::size_t gpus = 1, gpus_per_node = 1, tensor = 1, pipeline = 1, data = 1, context = 1;
  std::size_t zero = 0;  // ZeRO stage
  std::optional<double> parameters, layers, hidden, heads, feed_forward, sequence, vocabulary, batch, microbatch;
  std::optional<double> chunks;  // stages per device of the pipeline
  std::optional<bool> shares_sequence;
  std::optional<double> seconds;                            // of a step; of a layer if the family is "gpt-layer"
  std::optional<double> forward_seconds, backward_seconds;  // of a layer

  bool is_half() const;  // 16 bit, also if mixed
  bool calibrates() const { return split == "calibrate"; }
  std::size_t nodes() const { return (gpus + gpus_per_node - 1) / gpus_per_node; }
  /// Microbatches per replica in a step; none if the source gives no batch or microbatch.
  std::optional<double> accumulation() const;
};

/// A file of published runs: {"name", "common", "data"}. A row is an element of `data`, with missing members taken from
/// `common`.
struct MeasuredSource {
  std::string name;
  std::vector<MeasuredRow> rows;
};

/// Reads a file of published runs. Throws InputError ("file") if it cannot be read, and for malformed JSON, a row
/// without an id, a member of a wrong kind, a count that is not an integer from 1 to 10^6, or a step time that is not
/// positive.
MeasuredSource read_measured(const std::filesystem::path& path);

/// Measured all-reduce times within one node (nccl-tests), by kind and number of GPUs and by size.
class AllReduceTimes {
 public:
  /// Reads {"data": [{"op", "gpu_kind", "gpus", "nodes", "bytes", "time_us"}]} and keeps all-reduces on one node with
  /// at least two sizes, of several times for one size the shortest. Throws InputError as read_measured() does.
  static AllReduceTimes read(const std::filesystem::path& path);

  /// Seconds by linear interpolation between the two nearest sizes. Above the largest size, the last line is extended;
  /// below the smallest, its time is scaled in proportion to the bytes, by at least half. A kind that was not measured
  /// has the times of the first kind, by name, of its generation ("A100"), and none if that has no curve. If the kind
  /// was not measured with n = `gpus`, the bus bandwidth is that of k GPUs, the nearest larger number, or the largest
  /// if there is none: time x (2 (n - 1) / n) / (2 (k - 1) / k).
  std::optional<double> seconds(std::string_view gpu_kind, std::size_t gpus, double bytes) const;

 private:
  using Curve = std::vector<std::pair<double, double>>;                      // bytes, seconds; ascending
  std::map<std::string, std::map<std::size_t, Curve>, std::less<>> curves_;  // by kind, then number of GPUs
};

/// "A100" of "A100-SXM4-80GB".
std::string generation(std::string_view gpu_kind);

}  // namespace trainyard::bench
