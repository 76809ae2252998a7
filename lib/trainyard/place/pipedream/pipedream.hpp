#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/place/pipedream/layer_profile.hpp"

namespace trainyard {

/// How many machines are joined at one level, and by how fast a network. A machine of one level is all the machines of
/// the level within it; the innermost machines are devices.
struct PipelineLevel {
  std::size_t machines;
  BytesPerSecond bandwidth;
};

struct PipedreamOptions {
  /// Activations and their gradients cross between stages at 1/compression of their bytes; none: they cost nothing, as
  /// is the default of PipeDream's program. 1: they cost what they are.
  std::optional<double> activation_compression = {};
  bool straight = false;             // no stage on several machines
  std::optional<Bytes> memory = {};  // of a device; none: not looked at, as is the default
  bool fewer_machines = false;       // machines may stay unused
  std::size_t most_states = 10'000;  // where the network may be cut
  std::function<bool()> stop = {};   // asked all the time: throws OutOfTime
};

/// One stage at one level: the layers of states `first` to `last` (excluded), on `machines` machines of that level.
struct PipelineStage {
  std::size_t first, last;
  double compute;  // seconds for one batch on one device
  std::size_t machines;

  friend bool operator==(const PipelineStage&, const PipelineStage&) = default;
};

struct PipelinePartition {
  double pipeline;       // seconds for a batch where the pipeline is full: what is minimised
  double data_parallel;  // the same with every layer on all machines
  double one_device;
  std::size_t states;
  std::vector<std::vector<PipelineStage>>
      levels;                      // outermost first; those of a level lie within those of the one before
  std::vector<std::size_t> stage;  // of each layer the stage of the innermost level
};

/// The partition of a network into the stages of a pipeline, and of machines to the stages, that gives most batches a
/// second. With states numbered as in pipeline_states.hpp, T(i, j), P(i, j), S(i, j) the seconds (forward and
/// backward), parameter bytes and activation bytes of the layers of states i to j, a(k) the bytes that cross behind
/// state k, M the machines and B the bandwidth of the level, g the machines of the level within (1 at the innermost):
///
///     A(i, j, m) = the least of
///         one stage on m machines:   (T(i, j) + 4 (m - 1) P(i, j) / (B m) / g) / m
///         for each cut k, m' < m:    max(A(i, k, m - m'), (T(k+1, j) + 4 (m' - 1) P(k+1, j) / (B m')) / m',
///                                        2 a(k) / (B m' compression), 2 a(j) / (B m' compression) unless j is last)
///     memory: a stage is not considered where ceil((M - m) / m') (S + P) is above it
///
/// and the next level has A(i, j, M) in the place of T(i, j). Ties go to the earlier cut, then to fewer machines. As in
/// PipeDream's program; its paper has 2 (m - 1) P / B, overlapping, for the exchange of gradients. Numbers are doubles,
/// as there. Throws InputError as pipeline_states() does, and "no-partition". O(N^2 M^2) for N states at the outermost
/// level, O(N^3 M^2) within.
///
/// D. Narayanan et al.: PipeDream: generalized pipeline parallelism for DNN training. SOSP 2019.
PipelinePartition pipedream_partition(const LayerProfile& profile, const std::vector<PipelineLevel>& levels,
                                      const PipedreamOptions& options = {});

}  // namespace trainyard
