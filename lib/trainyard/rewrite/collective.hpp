#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// "parameter-server", "ring", "halving-doubling", "tree", "hierarchical", "whole".
const char* name_of(Collective collective);
std::optional<Collective> find_collective(std::string_view name);

/// A tensor that holds an array, or a part of one.
struct ArrayPart {
  std::string tensor;
  Bytes bytes;
};
using ArrayParts = std::vector<ArrayPart>;

/// Types of the ops of collectives. A Reduce adds two parts: it reads both and writes one, 3 times the bytes of a part.
/// A Relay passes a part on, or presents it as other parts; it takes no time and holds nothing twice.
inline constexpr const char* kReduceType = "Reduce";
inline constexpr const char* kRelayType = "Relay";

/// Whether the op is a turn: a backward relay without inputs and outputs. If replicas reduce gradients within the
/// backward pass, the ops that make these gradients wait for a turn until there is room for them. A turn that comes
/// after no op waits for ops of the previous microbatch.
bool is_turn(const Graph& graph, OpId op);

/// Collectives give the sum of the arrays of all ranks to all ranks. Their times with n ranks, arrays of S bytes, a
/// latency of alpha seconds and beta seconds per byte on every link, if no link is shared and additions take no time:
///
///     parameter_server   one rank adds all arrays and sends the sum to all
///     ring               2 (n - 1) (alpha + S/n beta): reduce-scatter, then all-gather
///     halving_doubling   2 log2(n) alpha + 2 (n - 1)/n S beta; n a power of two
///     tree               2 ceil(log2 n) (alpha + S beta): binomial, to rank 0 and back
///     hierarchical       rings of g ranks within nodes, and rings between nodes (alpha', beta') on their shares:
///                        2 (g - 1) (alpha + S/g beta)  +  2 (n/g - 1) (alpha' + S/n beta')
///     whole              one task (Graph::collective), timed as the ring, as trees, or as measured: CollectiveRun
///
/// The whole collective and the ring agree if each runs alone and additions take no time. Otherwise they differ in two
/// ways. The ring's additions run between its steps, while a library overlaps them with the arrival of the next part.
/// The ring's sends wait for links one by one, while the whole collective waits for all its links at once.
///
/// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 2005.
///
/// Builds collectives from ops. A transfer occurs when an op reads a tensor that an op of another rank makes: in each
/// step of an algorithm, one tensor goes to one other rank. Throws InputError: "unknown-rank", "size" (a list without
/// one entry per rank or member), "collective".
class CollectiveOps {
 public:
  /// Ops are named "NAME/STEP@2" for rank 1. They have phase, layer, group and device kinds of `ranks`. If `ranks`
  /// gives times, additions take no time. Relays take no time on CPUs, GPUs, and devices with a given time.
  CollectiveOps(std::string name, std::vector<OpSpec> ranks) : name_(std::move(name)), ranks_(std::move(ranks)) {}

  /// Divides the array of a rank, `whole` bytes made up of `inputs`, into equal parts (share_of(): they differ by at
  /// most a byte).
  ArrayParts divide(std::size_t rank, const std::string& step, const std::vector<std::string>& inputs, Bytes whole,
                    std::size_t parts);
  /// Joins parts into outputs with these names and sizes.
  void join(std::size_t rank, const std::string& step, const ArrayParts& parts, std::vector<OutputSpec> outputs);
  /// Joins parts into one array.
  ArrayPart join(std::size_t rank, const std::string& step, const ArrayParts& parts);
  /// An op of no time. The caller adds its inputs, outputs and dependencies before it adds another op.
  OpSpec& relay(std::size_t rank, const std::string& step);

  /// `parts[i][c]` is part c of the array of member i, which is rank `members[i]`. There are as many parts as members.
  /// Member i ends up with the sum of part i, after n - 1 steps of one part each.
  ArrayParts reduce_scatter(const std::string& step, const std::vector<std::size_t>& members,
                            const std::vector<ArrayParts>& parts);
  /// Member i starts with part i and ends up with all parts, after n - 1 steps of one part each.
  std::vector<ArrayParts> all_gather(const std::string& step, const std::vector<std::size_t>& members,
                                     const ArrayParts& parts);
  /// Any collective as one task. `inputs` lists, by rank, the tensors that make up its array before the collective;
  /// `outputs` is its array afterwards. Adds ops "ready" and "done" for each rank and one op "collective". In a fold,
  /// `inputs` and `outputs` are those of the ranks that are built.
  void whole(CollectiveTask task, const std::vector<std::vector<std::string>>& inputs,
             const std::vector<OutputSpec>& outputs);
  /// All-reduce of arrays of `whole` bytes, given by rank as the tensors that make them up. Returns the sum by rank, in
  /// parts. Throws for parameter_server. `per_node` (hierarchical): number of consecutive ranks that form a node, see
  /// check_collective().
  std::vector<ArrayParts> all_reduce(Collective collective, const std::vector<std::vector<std::string>>& inputs,
                                     Bytes whole, std::size_t per_node = 1);

  const std::vector<OpSpec>& ops() const { return ops_; }
  /// The rank of each op.
  const std::vector<std::size_t>& op_ranks() const { return op_ranks_; }

 private:
  std::string op_name(std::size_t rank, const std::string& step) const;
  OpSpec& add(std::size_t rank, const std::string& step, const char* type);
  ArrayPart sum(std::size_t rank, const std::string& step, const ArrayPart& own, const ArrayPart& arrived);
  ArrayPart hand_on(std::size_t rank, const std::string& step, const ArrayPart& part);
  std::vector<ArrayParts> by_tree(std::vector<ArrayPart> arrays);
  std::vector<ArrayParts> by_halving(std::vector<ArrayPart> arrays);
  std::vector<ArrayParts> by_hierarchy(const std::vector<ArrayParts>& parts, std::size_t per_node);

  std::string name_;
  std::vector<OpSpec> ranks_;
  std::vector<OpSpec> ops_;
  std::vector<std::size_t> op_ranks_;
};

/// Throws InputError ("collective") if the number of ranks is not a power of two for halving_doubling, or not a
/// multiple of `per_node` for hierarchical.
void check_collective(Collective collective, std::size_t ranks, std::size_t per_node);

}  // namespace trainyard
