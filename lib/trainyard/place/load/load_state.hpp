#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// The loads of all devices under a placement of colors, kept up to date as colors move: O(edges of the color) a move,
/// in whole numbers, so that going back is exact.
class LoadState {
 public:
  /// `placement`: the device of each color; every color can run on its device.
  LoadState(const LoadProblem& problem, std::vector<DeviceId> placement);

  const LoadProblem& problem() const { return *problem_; }
  DeviceId device(std::size_t color) const { return device_[color]; }
  const std::vector<DeviceId>& placement() const { return device_; }
  /// The color can run there.
  bool can_run(std::size_t color, DeviceId device) const {
    return problem_->color_time(color, problem_->kind_of(device)) != kNeverLoad;
  }
  Bytes size(std::size_t color) const { return problem_->color_size(color); }
  /// The color's time there, both passes.
  Picoseconds time(std::size_t color, DeviceId device) const {
    return problem_->color_time(color, problem_->kind_of(device));
  }

  void move(std::size_t color, DeviceId to);

  const PassLoad& forward(DeviceId device) const { return passes_[2 * device.index()]; }
  const PassLoad& backward(DeviceId device) const { return passes_[2 * device.index() + 1]; }
  Picoseconds load(DeviceId device, LoadSum sum) const {
    PassLoad both = forward(device);
    both += backward(device);
    return both.load(sum);
  }
  Picoseconds value(const LoadOptions& options) const;
  /// Beyond the capacities, all devices together.
  Bytes excess() const { return Bytes{excess_}; }

 private:
  PassLoad& pass(DeviceId device, OpId producer) {
    return passes_[2 * device.index() + (problem_->op(producer).backward ? 1 : 0)];
  }
  std::uint32_t& readers(TensorId tensor, DeviceId device) {
    return readers_[tensor.index() * device_count_ + device.index()];
  }
  Picoseconds cost(TensorId tensor, DeviceId device) const { return problem_->cost(tensor, problem_->kind_of(device)); }
  void move_producer(TensorId tensor, DeviceId from, DeviceId to);
  void move_reader(TensorId tensor, DeviceId from, DeviceId to);
  void add_size(DeviceId device, std::int64_t bytes);

  const LoadProblem* problem_;
  std::size_t device_count_;
  std::vector<DeviceId> device_;           // of each color
  std::vector<PassLoad> passes_;           // device x pass
  std::vector<std::int64_t> held_, room_;  // of each device
  std::vector<DeviceId> producer_;         // of each tensor the device that makes it
  std::vector<std::uint32_t> readers_;     // tensor x device
  std::vector<std::uint32_t> remote_;      // of each tensor: devices with readers, but for its producer's
  std::int64_t excess_ = 0;
};

/// Every op where its color is.
LoadPlacement placement_of(const LoadState& state);

}  // namespace trainyard
