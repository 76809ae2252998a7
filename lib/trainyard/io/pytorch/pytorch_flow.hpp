#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "trainyard/io/pytorch/pytorch_ops.hpp"

namespace trainyard {

/// A piece of an op of a trace: the whole op, or, for an op over lists of tensors (_foreach_add_), its work on the i-th
/// elements of the lists.
struct TracePiece {
  std::uint32_t node = 0;
  std::uint32_t element = 0;
  bool one_of_several = false;
};

/// A byte range of a storage that one piece writes and another reads.
struct TraceRead {
  std::uint32_t from = 0, to = 0, storage = 0;  // from, to: pieces
  std::int64_t begin = 0, end = 0;

  friend auto operator<=>(const TraceRead&, const TraceRead&) = default;
};

/// The data flow of a trace. A storage is a range of bytes. An op that writes some of them replaces their previous
/// writer, so in-place ops make new versions, views are not ops, and partial writes give a storage several writers. An
/// allocation discards the contents.
struct TraceFlow {
  struct Written {
    std::uint32_t piece = 0, storage = 0;
    std::int64_t bytes = 0;  // largest extent
  };
  struct Resident {
    std::uint32_t storage = 0;
    std::int64_t bytes = 0;
    bool parameter = false;  // otherwise optimizer state
  };

  std::vector<TracePiece> pieces;          // by node and element
  std::vector<std::uint32_t> first_piece;  // by kept op, with the end as last entry
  std::vector<TraceRead> reads;            // by from, to, storage, begin; between pieces of different ops
  std::vector<Written> written;            // by piece and storage
  /// Storages that exist before the step and that only the optimizer writes, in place.
  std::vector<Resident> residents;                               // by storage
  std::vector<std::pair<std::uint32_t, std::uint32_t>> touches;  // (storage of a resident, piece that touches it)
  std::size_t unwritten = 0;  // pieces that read allocated memory that nothing has written

  /// Number of pairs of ops with data between them, and the bytes; a byte between two ops counts once.
  struct Totals {
    std::size_t edges = 0;
    std::int64_t bytes = 0;
  };
  Totals between_ops(const PytorchTrace& trace, std::int64_t first_id, std::int64_t last_id) const;
};

TraceFlow trace_flow(const TraceCalls& calls, const TraceOps& ops);

}  // namespace trainyard
