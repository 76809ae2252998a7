#pragma once

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "profiler/run/cpu/memory_pool.hpp"
#include "profiler/run/recording/action_log.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::cpu {

/// Addresses of tensors on each device of a schedule: a tensor owns memory on its producer's device, and borrows it
/// wherever it arrives. Memory is released after its last use.
class TensorStore {
 public:
  /// `beside`: tensors that each op reads besides its inputs, in their producer's memory. `log`: gets allocations and
  /// frees; may be null.
  TensorStore(const Graph& graph, const Placement& placement, std::size_t devices,
              std::vector<std::vector<TensorId>> beside, ActionLog* log)
      : graph_(graph),
        placement_(placement),
        devices_(devices),
        beside_(std::move(beside)),
        log_(log),
        slots_(graph.tensor_count() * devices),
        tables_(devices, std::vector<std::byte*>(graph.tensor_count(), nullptr)) {}
  TensorStore(const TensorStore&) = delete;
  ~TensorStore() {
    for (Slot& slot : slots_)
      if (slot.owned) pool_.give_back(slot.data, slot.size);
  }

  void begin_step() {
    pool_.forget_most();
    for (const TensorId tensor : graph_.tensors()) {
      const std::size_t home = home_of(tensor);
      for (std::size_t d = 0; d < devices_; ++d) slot(tensor, d).users.store(0);
      for (const OpId consumer : graph_.consumers(tensor))
        slot(tensor, placement_[consumer].index()).users.fetch_add(1);
      for (std::size_t d = 0; d < devices_; ++d)
        if (d != home && slot(tensor, d).users.load() > 0) slot(tensor, home).users.fetch_add(1);
      slot(tensor, home).users.fetch_add(graph_.kept(tensor) ? 2 : 1);  // its producer, and the end of the step
    }
    for (const auto& tensors : beside_)
      for (const TensorId tensor : tensors) slot(tensor, home_of(tensor)).users.fetch_add(1);
  }
  /// Makes the tensors that the op reads besides its inputs visible on this device.
  void show_beside(OpId op, std::size_t d) {
    if (!beside_.empty())
      for (const TensorId tensor : beside_[op.index()]) tables_[d][tensor.index()] = slot(tensor, home_of(tensor)).data;
  }
  void release_beside(OpId op) {
    if (!beside_.empty())
      for (const TensorId tensor : beside_[op.index()]) release(tensor, home_of(tensor));
  }
  void end_step() {
    for (const TensorId tensor : graph_.tensors())
      if (graph_.kept(tensor)) release(tensor, home_of(tensor));
  }

  /// Allocates memory on the producer's device.
  void take(TensorId tensor, std::size_t d, std::size_t size) {
    Slot& here = slot(tensor, d);
    here.size = size;
    here.data = tables_[d][tensor.index()] = pool_.take(size);
    here.owned = true;
    note(Action::Kind::allocate, tensor, d);
  }
  /// The tensor has arrived.
  void borrow(TensorId tensor, std::size_t from, std::size_t to) {
    slot(tensor, to).data = tables_[to][tensor.index()] = slot(tensor, from).data;
    note(Action::Kind::allocate, tensor, to);
  }
  /// One of its users on the device has finished.
  void release(TensorId tensor, std::size_t d) {
    Slot& here = slot(tensor, d);
    if (here.users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    note(Action::Kind::free, tensor, d);
    const std::size_t home = home_of(tensor);
    if (d != home) return release(tensor, home);
    pool_.give_back(here.data, here.size);
    here.owned = false;
  }

  /// Address of each tensor on the device.
  std::byte* const* table(std::size_t d) const { return tables_[d].data(); }
  /// Peak of the memory taken in this step.
  std::size_t most() const { return pool_.most(); }

 private:
  struct Slot {
    std::byte* data = nullptr;
    std::size_t size = 0;
    bool owned = false;
    std::atomic<int> users{0};  // ops on the device that still need it, and copies that borrow it
  };

  std::size_t home_of(TensorId tensor) const { return placement_[graph_.producer(tensor)].index(); }
  Slot& slot(TensorId tensor, std::size_t d) { return slots_[tensor.index() * devices_ + d]; }
  void note(Action::Kind kind, TensorId tensor, std::size_t d) {
    if (log_) log_->add({.kind = kind, .op = OpId::none(), .tensor = tensor, .device = DeviceId{d}});
  }

  const Graph& graph_;
  const Placement& placement_;
  const std::size_t devices_;
  const std::vector<std::vector<TensorId>> beside_;  // by op; empty: none
  ActionLog* const log_;
  MemoryPool pool_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::byte*>> tables_;
};

}  // namespace trainyard::cpu
