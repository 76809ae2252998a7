#pragma once

#include <cstddef>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/baechi/m_edges.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Who solves the linear program of m-SCT.
enum class LinearSolver : std::uint8_t {
  best,     // Clp where this build has it, else simplex
  clp,      // MissingError where this build has it not
  simplex,  // ours
};

/// The linear program of m-SCT, over edges i -> j between ops: x(i,j) = 0 makes j the favourite child of i, so that its
/// transfer is hidden.
///
///     minimize w
///     s(i) + p(i) + c(i,j) x(i,j) <= s(j)              for each edge;  s(i) + p(i) <= w
///     sum over j of x(i,j) >= (number of children of i) - 1
///     sum over i of x(i,j) >= (number of parents of j) - 1,      0 <= x <= 1,  s >= 0
///
/// p is an op's mean duration, c the mean time to transfer the tensors of the edge one after the other (see
/// MeanCosts). The value is a lower bound of no schedule: a device hides more than one transfer.
struct RelaxedFavourites {
  IdMap<EdgeId, double> x;
  double value = 0;  // of w with this x, ns
  double bound = 0;  // no x does better, ns; the value itself where the program was solved to its end
  std::size_t blocks = 0, largest_block = 0;  // programs solved, and the rows of the largest
};

/// Solves it in parts, all exact. With L the longest path where every x is 0:
///
///  - an edge whose longest path, where every x is 1, is no longer than L never matters: its x is 1, and it goes;
///  - an edge that alone leaves its op and alone leads to its op may have x = 0;
///  - an op on every path cuts the program in two that share nothing, for its children and its parents are counted
///    apart; in each part L is what is longest there, and the first rule applies again;
///  - an op with one edge in, or out, of x = 0 is one with the op at its other end.
///
/// The rest is solved by a solver, part by part. The optimal x are many. Ours makes of edges whose x does not
/// matter favourites as far as the sums leave room, the longest transfers first (ties: the lower edge).
///
/// Our simplex method stops after `most_pivots` in a part, or after some seconds' work in all, counted and not timed:
/// graphs of many thousand ops reach that; and Clp when half of the seconds of `effort` are over, after which no part
/// is begun. What is not solved then keeps the best x found, and bound < value.
RelaxedFavourites relaxed_favourites(const Problem& problem, const OpEdges& edges,
                                     LinearSolver solver = LinearSolver::best, std::size_t most_pivots = 100'000,
                                     const Effort& effort = Effort{{}});

/// The favourite child of each op, none where it has none: where x < threshold - 1e-9. Beyond 0.5 there may be several:
/// then that with the least x (ties: the lower edge), one for each child, too.
IdMap<OpId, OpId> favourite_children(const Problem& problem, const OpEdges& edges, const IdMap<EdgeId, double>& x,
                                     double threshold = 0.5);

}  // namespace trainyard
