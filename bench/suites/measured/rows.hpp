#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::bench {

/// One published training run. Empty texts and numbers: the source does not say.
struct MeasuredRow {
  std::string id, model, family, gpu_kind, precision, framework, schedule, recompute, interconnect, split, where;
  std::size_t gpus = 1, gpus_per_node = 1, tensor = 1, pipeline = 1, data = 1, context = 1;
  std::size_t zero = 0;  // stage
  std::optional<double> parameters, layers, hidden, heads, feed_forward, sequence, vocabulary, batch, microbatch;
  std::optional<double> chunks;  // stages a device of the pipeline
  std::optional<bool> shares_sequence;
  std::optional<double> seconds;                            // of a step; of "gpt-layer" that of a layer
  std::optional<double> forward_seconds, backward_seconds;  // of a layer

  bool is_half() const;  // 16 bit, mixed or not
  bool calibrates() const { return split == "calibrate"; }
  std::size_t nodes() const { return (gpus + gpus_per_node - 1) / gpus_per_node; }
  /// Microbatches of a replica in a step; nothing where the source gives no batches.
  std::optional<double> accumulation() const;
};

/// A file of published runs: {"name", "common", "data"}, where a row is `common` with the members
/// of its element of `data` over it.
struct MeasuredSource {
  std::string name;
  std::vector<MeasuredRow> rows;
};

/// Throws InputError: "file"; JSON that is none; a row without an id, with a member of another kind, with a count that
/// is no whole number from 1 to 10^6, or a step time that is not above 0.
MeasuredSource read_measured(const std::filesystem::path& path);

/// Times of an all-reduce of measured sizes (nccl-tests), by kind of GPU and how many of one node take part.
class AllReduceTimes {
 public:
  /// Reads {"data": [{"op", "gpu_kind", "gpus", "nodes", "bytes", "time_us"}]}; takes the all-reduce curves of one node
  /// with at least two sizes. Throws InputError as read_measured() does.
  static AllReduceTimes read(const std::filesystem::path& path);

  /// Seconds, on the line between the two nearest sizes; beyond the largest on the last line, below the smallest its
  /// time in proportion, at least half. GPUs of a generation ("A100") that were measured in another number take the bus
  /// bandwidth of the nearest larger number, else of the largest: time x (2 (n - 1) / n) / (2 (k - 1) / k). Nothing
  /// where no curve is of the generation.
  std::optional<double> seconds(std::string_view gpu_kind, std::size_t gpus, double bytes) const;

 private:
  using Curve = std::vector<std::pair<double, double>>;  // bytes, seconds; ascending
  std::map<std::string, std::map<std::size_t, Curve>> curves_;
};

/// "A100" of "A100-SXM4-80GB".
std::string generation(std::string_view gpu_kind);

}  // namespace trainyard::bench
