#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "trainyard/io/pytorch/pytorch_ops.hpp"

namespace trainyard {

/// A piece of an op of a trace: the whole op; or, of an op over lists of tensors (_foreach_add_), its i-th elements.
struct TracePiece {
  std::uint32_t node = 0;
  std::uint32_t element = 0;
  bool one_of_several = false;
};

/// Bytes of a storage that one piece writes and another reads.
struct TraceRead {
  std::uint32_t from = 0, to = 0, storage = 0;  // pieces
  std::int64_t begin = 0, end = 0;

  friend auto operator<=>(const TraceRead&, const TraceRead&) = default;
};

/// The data of a trace: who writes what, and who reads it. A storage is one line of bytes; an op that writes bytes of
/// it takes them over from whoever wrote them before, so that in-place ops make new versions, views are no ops, and
/// partial writes have several writers. An allocation ends what was there.
struct TraceFlow {
  struct Written {
    std::uint32_t piece = 0, storage = 0;
    std::int64_t bytes = 0;  // the largest extent
  };
  struct Resident {
    std::uint32_t storage = 0;
    std::int64_t bytes = 0;
    bool parameter = false;  // else optimizer state
  };

  std::vector<TracePiece> pieces;          // by node and element
  std::vector<std::uint32_t> first_piece;  // by kept op, and one more
  std::vector<TraceRead> reads;            // by from, to, storage, begin; of pieces of different ops, or of one
  std::vector<Written> written;            // by piece and storage
  /// Storages that are there before the step, and that only the optimizer writes: in place.
  std::vector<Resident> residents;                               // by storage
  std::vector<std::pair<std::uint32_t, std::uint32_t>> touches;  // storage of a resident, piece that reads or writes it
  std::size_t unwritten = 0;  // pieces that read memory which was allocated, and which nothing has written

  /// Pairs of ops, and the bytes that pass between them: every byte once.
  struct Totals {
    std::size_t edges = 0;
    std::int64_t bytes = 0;
  };
  Totals between_ops(const PytorchTrace& trace, std::int64_t first_id, std::int64_t last_id) const;
};

TraceFlow trace_flow(const TraceCalls& calls, const TraceOps& ops);

}  // namespace trainyard
