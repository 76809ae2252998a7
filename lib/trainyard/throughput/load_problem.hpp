#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Unit of time in the throughput model. Published costs have more than six decimals of a millisecond, and sums of
/// thousands of them must be exact.
using Picoseconds = Count<struct PicosecondUnit>;

/// Special value of a time: the op cannot run there.
inline constexpr Picoseconds kNeverLoad{-1};
/// Larger than any load.
inline constexpr Picoseconds kInfiniteLoad{std::numeric_limits<std::int64_t>::max()};

/// A kind of devices: they are equal in all respects of the model.
using KindId = Id<struct LoadKindTag>;

struct LoadKind {
  std::string name;                  // "gpu", "cpu"
  std::optional<Bytes> memory = {};  // capacity; none: unlimited
  bool pays = true;                  // sending and receiving cost time; not on CPUs, which own the host memory
  friend bool operator==(const LoadKind&, const LoadKind&) = default;
};

struct LoadOp {
  std::string name;
  bool backward = false;
  std::uint32_t color = 0;  // ops of one color share a device; colors are numbered from 0 without gaps
  Bytes size{};             // memory that it takes on its device
};

/// The output of an op. Each device sends or receives it at most once, at a cost that depends only on the device's
/// kind. The producer is not one of the consumers.
struct LoadTensor {
  OpId producer;
  std::vector<OpId> consumers;
};

/// Constructor arguments of a LoadProblem. `times` has shape ops x kinds, `costs` tensors x kinds, both row-major.
struct LoadParts {
  std::vector<LoadKind> kinds;
  IdMap<DeviceId, KindId> devices;
  IdMap<OpId, LoadOp> ops;
  std::vector<Picoseconds> times;
  std::vector<LoadTensor> tensors = {};
  std::vector<Picoseconds> costs = {};
};

/// The throughput problem of J. Tarnawski et al., "Efficient algorithms for device placement of DNN graph operators",
/// NeurIPS 2020. Samples follow one another through the devices without gaps, so that the time per sample is the load
/// of the busiest device (throughput/evaluate.hpp). All transfers go through host memory: a tensor between two
/// accelerators costs time on both, once on each, for any number of consumers there.
class LoadProblem {
 public:
  /// Throws InputError: "cycle"; "too-large" if the sum of all times and of all costs on all devices exceeds 2^60 ps
  /// (thirteen days); "size" if the number of times or costs does not match ops, tensors and kinds, or if a device has
  /// an unknown kind. Tensors without consumers and repeated consumers are dropped.
  explicit LoadProblem(LoadParts parts);

  std::size_t op_count() const { return parts_.ops.size(); }
  std::size_t tensor_count() const { return parts_.tensors.size(); }
  std::size_t device_count() const { return parts_.devices.size(); }
  std::size_t kind_count() const { return parts_.kinds.size(); }
  std::size_t color_count() const { return color_ops_.rows(); }
  IdRange<OpId> ops() const { return IdRange<OpId>{op_count()}; }
  IdRange<TensorId> tensors() const { return IdRange<TensorId>{tensor_count()}; }
  IdRange<DeviceId> devices() const { return IdRange<DeviceId>{device_count()}; }
  IdRange<KindId> kinds() const { return IdRange<KindId>{kind_count()}; }

  const LoadOp& op(OpId op) const { return parts_.ops[op]; }
  const LoadKind& kind(KindId kind) const { return parts_.kinds[kind.index()]; }
  KindId kind_of(DeviceId device) const { return parts_.devices[device]; }
  /// In ascending order of id.
  std::span<const DeviceId> devices_of(KindId kind) const { return kind_devices_[kind]; }

  /// Time of the op on a device of the kind; kNeverLoad if it cannot run there.
  Picoseconds time(OpId op, KindId kind) const { return parts_.times[op.index() * kind_count() + kind.index()]; }
  /// The cost of sending or receiving the tensor on a device of the kind; 0 for kinds that do not pay.
  Picoseconds cost(TensorId tensor, KindId kind) const {
    return parts_.costs[tensor.index() * kind_count() + kind.index()];
  }
  const LoadTensor& tensor(TensorId tensor) const { return parts_.tensors[tensor.index()]; }
  std::span<const TensorId> outputs(OpId op) const { return outputs_[op]; }
  std::span<const TensorId> inputs(OpId op) const { return inputs_[op]; }
  /// The ops of a color, ascending.
  std::span<const OpId> color_ops(std::uint32_t color) const { return color_ops_[OpId{color}]; }
  /// Sum of the times of the color's ops of one pass on the kind. If an op of either pass cannot run there: kNeverLoad.
  Picoseconds color_time(std::size_t color, KindId kind, bool backward) const {
    return color_times_[(color * kind_count() + kind.index()) * 2 + (backward ? 1 : 0)];
  }
  /// Sum over both passes.
  Picoseconds color_time(std::size_t color, KindId kind) const {
    const Picoseconds forward = color_time(color, kind, false);
    return forward == kNeverLoad ? kNeverLoad : forward + color_time(color, kind, true);
  }
  Bytes color_size(std::size_t color) const { return color_sizes_[color]; }
  /// The colors of the tensor's consumers, ascending, without its producer's.
  std::vector<std::uint32_t> reading_colors(TensorId tensor) const;
  /// Topological order of the ops; among ready ops, the lowest id comes first.
  const std::vector<OpId>& topological_order() const { return order_; }
  /// Whether the problem has ops of the backward pass.
  bool training() const { return training_; }

 private:
  LoadParts parts_;
  CompressedRows<OpId, TensorId> outputs_, inputs_;
  CompressedRows<OpId, OpId> color_ops_;
  CompressedRows<KindId, DeviceId> kind_devices_;
  std::vector<Picoseconds> color_times_;  // color x kind x pass
  std::vector<Bytes> color_sizes_;
  std::vector<OpId> order_;
  bool training_ = false;
};

/// Converts the files' milliseconds to the nearest picosecond.
Picoseconds picoseconds_from_milliseconds(double milliseconds);
inline double milliseconds(Picoseconds time) { return static_cast<double>(time.count) * 1e-9; }

}  // namespace trainyard
