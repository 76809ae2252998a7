#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/place/load/ideals.hpp"
#include "trainyard/throughput/contraction.hpp"
#include "trainyard/throughput/evaluate.hpp"

namespace trainyard {

/// The load of a set of blocks on each kind of device, updated as blocks are added and removed. It uses integers, so
/// that removal is exact.
class IntervalLoad {
 public:
  IntervalLoad(const LoadProblem& problem, const Contraction& blocks, const IdealLattice& lattice);

  /// Add or remove a block, given by its rank in the lattice.
  void add(std::uint32_t rank) { change(rank, 1); }
  void remove(std::uint32_t rank) { change(rank, -1); }

  /// Excludes kinds on which the compute time of the blocks, shared by `replicas`, is not below `cap`.
  void set_cap(Picoseconds cap, std::size_t replicas);
  /// True if a device of the kind can run the blocks and hold them, and their time is below the cap.
  bool fits(std::size_t kind) const {
    const Kind& state = kinds_[kind];
    return state.never == 0 && size_ <= state.memory && state.time < state.cap;
  }
  bool worthwhile() const {
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      if (fits(k)) return true;
    return false;
  }

  PassLoad parts(std::size_t kind) const {
    const Kind& state = kinds_[kind];
    const std::size_t price = state.price;
    return {Picoseconds{state.time}, Picoseconds{in_[price]}, Picoseconds{out_[price]}};
  }
  Picoseconds load(std::size_t kind, LoadSum sum) const { return parts(kind).load(sum); }
  Bytes size() const { return Bytes{size_}; }

 private:
  struct Kind {
    std::int64_t time = 0, cap = 0, memory = 0;
    std::int32_t never = 0;   // blocks that cannot run there
    std::uint32_t price = 0;  // index of its distinct column of transfer costs
    bool exists = true;
  };
  struct Tensor {
    std::uint32_t readers = 0;  // consumers in the set
    std::uint32_t all = 0;
    bool made = false;  // the producer is in the set
  };
  struct Role {
    std::uint32_t tensor;
    bool makes;
  };
  struct Block {
    std::int64_t size = 0;
    std::uint32_t first_role = 0;  // into roles_, up to the next block's
  };

  void change(std::uint32_t rank, std::int64_t sign);

  std::vector<Kind> kinds_;
  std::vector<std::int64_t> times_;  // by rank x kinds; -1: cannot run
  std::vector<Block> blocks_;        // by rank, and an end marker
  std::vector<Role> roles_;
  std::vector<Tensor> tensors_;
  std::vector<std::int64_t> costs_;     // tensors x prices
  std::vector<std::int64_t> in_, out_;  // by price
  std::int64_t size_ = 0;
};

/// The load of a replicated part, as Replication defines it, to the nearest picosecond.
Picoseconds replicated_load(Picoseconds whole, Bytes size, std::size_t replicas, BytesPerSecond bandwidth);

}  // namespace trainyard
