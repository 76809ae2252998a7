#pragma once

#include <cstddef>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/baechi/m_edges.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Solver of the linear program of m-SCT.
enum class LinearSolver : std::uint8_t {
  best,     // Clp if this build has it, else simplex
  clp,      // MissingError if this build has no Clp
  simplex,  // own implementation
};

/// The linear program of m-SCT, over edges i -> j between ops. x(i,j) = 0 makes j the favourite child of i, so that the
/// transfer between them is hidden.
///
///     minimize w
///     s(i) + p(i) + c(i,j) x(i,j) <= s(j)              for each edge;  s(i) + p(i) <= w
///     sum over j of x(i,j) >= (number of children of i) - 1
///     sum over i of x(i,j) >= (number of parents of j) - 1,      0 <= x <= 1,  s >= 0
///
/// p is an op's mean duration, c the mean time to transfer the tensors of the edge one after the other (see MeanCosts).
/// The optimum is not a lower bound on schedules, since a device can hide more than one transfer.
struct RelaxedFavourites {
  IdMap<EdgeId, double> x;
  double value = 0;  // w for this x, ns
  double bound = 0;  // lower bound on w, ns; equals `value` if the program was solved to optimality
  std::size_t blocks = 0, largest_block = 0;  // programs solved, and the rows of the largest
};

/// Solves the program in parts, all of them exactly. With L the longest path if every x is 0:
///
///  - an edge whose longest path, if every x is 1, is at most L never matters: its x is 1, and it is removed;
///  - an edge that is the only one with a cost out of its op and the only one into its other op may have x = 0;
///  - an op on every path cuts the program into two independent ones, since its children and its parents are counted
///    separately; in each part L is the longest path there, and the first rule applies again;
///  - an op whose only edge in, or out, has x = 0 is merged with the op at its other end.
///
/// The rest is solved part by part. There are many optimal x. This implementation also makes favourites of edges whose
/// x does not matter, as far as the sums leave room, the longest transfers first (ties: the lower edge).
///
/// The simplex method stops after `most_pivots` in a part, or after some seconds' work in all, which is counted and not
/// timed; graphs of many thousand ops reach that. Clp stops when half of the seconds of `effort` are over, after which
/// no part is begun. Unsolved parts keep the best x found, and then bound < value.
RelaxedFavourites relaxed_favourites(const Problem& problem, const OpEdges& edges,
                                     LinearSolver solver = LinearSolver::best, std::size_t most_pivots = 100'000,
                                     const Effort& effort = Effort{{}});

/// The favourite child of each op, none if it has none. Edges with x < threshold - 1e-9 are candidates. Above a
/// threshold of 0.5 there may be several for an op, or for a child: then the one with the least x (ties: the lower
/// edge).
IdMap<OpId, OpId> favourite_children(const Problem& problem, const OpEdges& edges, const IdMap<EdgeId, double>& x,
                                     double threshold = 0.5);

}  // namespace trainyard
