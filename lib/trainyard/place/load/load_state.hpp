#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// The loads of all devices under a placement of colors, updated as colors move. A move takes O(edges of the color), in
/// integers, so that undoing it is exact.
class LoadState {
 public:
  /// `placement`: the device of each color; every color can run on its device.
  LoadState(const LoadProblem& problem, std::vector<DeviceId> placement);

  const LoadProblem& problem() const { return *problem_; }
  DeviceId device(std::size_t color) const { return device_[color]; }
  const std::vector<DeviceId>& placement() const { return device_; }
  bool can_run(std::size_t color, DeviceId device) const {
    return problem_->color_time(color, problem_->kind_of(device)) != kNeverLoad;
  }
  Bytes size(std::size_t color) const { return problem_->color_size(color); }
  /// Time of the color on the device, both passes.
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
  /// Bytes over the capacities, summed over the devices.
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
  std::vector<DeviceId> producer_;         // of each tensor, the device of its producer
  std::vector<std::uint32_t> readers_;     // tensor x device
  std::vector<std::uint32_t> remote_;      // of each tensor, the number of other devices that read it
  std::int64_t excess_ = 0;
};

/// The placement with every op on the device of its color.
LoadPlacement placement_of(const LoadState& state);

}  // namespace trainyard
