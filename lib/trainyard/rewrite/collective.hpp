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

/// A tensor that is an array, or a part of one.
struct ArrayPart {
  std::string tensor;
  Bytes bytes;
};
using ArrayParts = std::vector<ArrayPart>;

/// Types of the ops of collectives: what adds two parts (reads both, writes one: 3 times its bytes), what hands a part
/// on, or sees it as other parts (no time; it holds nothing twice).
inline constexpr const char* kReduceType = "Reduce";
inline constexpr const char* kRelayType = "Relay";

/// Whether the op is what gradients wait for that replicas add within the pass, until there is room for them: a relay
/// that reads and makes nothing. Where it comes after nothing, what it waits for is of the microbatch before.
bool is_turn(const Graph& graph, OpId op);

/// Collectives give the sum of the arrays of all ranks to all ranks. With n ranks, arrays of S bytes, alpha seconds and
/// beta seconds a byte on every link, none of them shared, and additions that take no time:
///
///     parameter_server   one rank adds all and sends the sum to all
///     ring               2 (n - 1) (alpha + S/n beta): reduce-scatter, then all-gather
///     halving_doubling   2 log2(n) alpha + 2 (n - 1)/n S beta; n a power of two
///     tree               2 ceil(log2 n) (alpha + S beta): binomial, to rank 0 and back
///     hierarchical       rings of g ranks within nodes, and between nodes on their shares:
///                        2 (g - 1) (alpha + S/g beta)  +  2 (n/g - 1) (alpha' + S/n beta')
///     whole              one task (Graph::collective), as long as the ring, trees, or as measured: CollectiveRun
///
/// Whole and ring agree where one runs alone and additions take no time. Otherwise the ring's additions are computed
/// between its steps, which a library overlaps with the next part's arrival, and its sends wait for links one by one,
/// where the whole one waits for all links at once.
///
/// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA 2005.
///
/// Collectives as ops. Transfers are where an op reads what one of another rank makes: each step of an
/// algorithm is one tensor that goes to one other rank. Throws InputError: "unknown-rank", "size" (lists that are not
/// of its ranks or members), "collective".
class CollectiveOps {
 public:
  /// Ops are named "NAME/STEP@2" for rank 1, and are otherwise as `ranks` has them: phase, layer, group, kinds. Where
  /// these give times, additions take none; what only hands on takes none on any of the devices named.
  CollectiveOps(std::string name, std::vector<OpSpec> ranks) : name_(std::move(name)), ranks_(std::move(ranks)) {}

  /// The array that the inputs of a rank make up, `whole` bytes, as equal parts (share_of: they differ by a byte
  /// where they do not divide).
  ArrayParts divide(std::size_t rank, const std::string& step, const std::vector<std::string>& inputs, Bytes whole,
                    std::size_t parts);
  /// The other way round; the outputs have these names and sizes.
  void join(std::size_t rank, const std::string& step, const ArrayParts& parts, std::vector<OutputSpec> outputs);
  /// The inverse of divide() into one part.
  ArrayPart join(std::size_t rank, const std::string& step, const ArrayParts& parts);
  /// An op of no time, to be given inputs, outputs and what it comes after.
  OpSpec& relay(std::size_t rank, const std::string& step);

  /// `parts[i][c]` is part c of the array of member i, which is rank `members[i]`; there are as many parts as members.
  /// Member i ends up with the sum of part i. n - 1 steps of one part each.
  ArrayParts reduce_scatter(const std::string& step, const std::vector<std::size_t>& members,
                            const std::vector<ArrayParts>& parts);
  /// Member i has part i and ends up with all. n - 1 steps of one part each.
  std::vector<ArrayParts> all_gather(const std::string& step, const std::vector<std::size_t>& members,
                                     const ArrayParts& parts);
  /// Any collective as one task: `inputs` by rank, which make up what it has before; `outputs` by rank, what it has
  /// after. Ops are "ready" and "done" of each rank, and "collective" of rank 1. Of a fold: of the ranks that are made.
  void whole(CollectiveTask task, const std::vector<std::vector<std::string>>& inputs,
             const std::vector<OutputSpec>& outputs);
  /// All-reduce of arrays of `whole` bytes, given by rank as the tensors that make them up; returns the sum in parts,
  /// by rank. Not for parameter_server. `per_node`: consecutive ranks that form a node (hierarchical), see
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

/// Throws InputError ("collective"): ranks that are not a power of two for halving_doubling, or not a multiple of
/// `per_node` for hierarchical.
void check_collective(Collective collective, std::size_t ranks, std::size_t per_node);

}  // namespace trainyard
