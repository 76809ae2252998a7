#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/place/pipedream/layer_profile.hpp"

namespace trainyard {

/// One level of a network: how many machines it joins, and their bandwidth. A machine of one level is all machines of
/// the level within it; the innermost machines are devices.
struct PipelineLevel {
  std::size_t machines;
  BytesPerSecond bandwidth;
};

struct PipedreamOptions {
  /// Activations and their gradients cross between stages at 1/compression of their bytes. None: they cost nothing, the
  /// default of PipeDream's program. 1: their full size counts.
  std::optional<double> activation_compression = {};
  bool straight = false;             // no stage on several machines
  std::optional<Bytes> memory = {};  // of a device; none: not checked, as is the default
  bool fewer_machines = false;       // machines may stay unused
  std::size_t most_states = 10'000;  // limit on the places to cut the network
  std::function<bool()> stop = {};   // polled throughout: throws OutOfTime
};

/// One stage at one level: the layers of states `first` to `last` (excluded), on `machines` machines of that level.
struct PipelineStage {
  std::size_t first, last;
  double compute;  // seconds for one batch on one device
  std::size_t machines;

  friend bool operator==(const PipelineStage&, const PipelineStage&) = default;
};

struct PipelinePartition {
  double pipeline;       // seconds per batch when the pipeline is full; the objective
  double data_parallel;  // seconds per batch with every layer replicated on all machines
  double one_device;
  std::size_t states;
  std::vector<std::vector<PipelineStage>>
      levels;                      // outermost first; stages of a level lie within those of the level before
  std::vector<std::size_t> stage;  // of each layer, at the innermost level
};

/// Partitions a network into pipeline stages and assigns machines to them, for the highest number of batches a second.
/// States are numbered as in pipeline_states.hpp. T(i, j), P(i, j) and S(i, j) are the seconds (forward and backward),
/// parameter bytes and activation bytes of the layers of states i to j; a(k) is the bytes that cross the cut after
/// state k; M and B are the level's machines and bandwidth; g is the machines of the level within (1 at the innermost):
///
///     A(i, j, m) = the least of
///         one stage on m machines:   (T(i, j) + 4 (m - 1) P(i, j) / (B m) / g) / m
///         for each cut k, m' < m:    max(A(i, k, m - m'), (T(k+1, j) + 4 (m' - 1) P(k+1, j) / (B m')) / m',
///                                        2 a(k) / (B m' compression), 2 a(j) / (B m' compression) unless j is last)
///     memory: a stage is excluded if ceil((M - m) / m') (S + P) exceeds it; the last one (m = M) never is
///
/// The next level has A(i, j, M) in place of T(i, j). Ties go to the earlier cut, then to fewer machines. This is
/// PipeDream's program; its paper has 2 (m - 1) P / B, overlapped, for the exchange of gradients. Numbers are doubles,
/// as there. Throws InputError as pipeline_states() does, and "no-partition" if there is none; OutOfTime. O(N^2 M^2)
/// for N states at the outermost level, O(N^3 M^2) within.
///
/// D. Narayanan et al.: PipeDream: generalized pipeline parallelism for DNN training. SOSP 2019.
PipelinePartition pipedream_partition(const LayerProfile& profile, const std::vector<PipelineLevel>& levels,
                                      const PipedreamOptions& options = {});

}  // namespace trainyard
