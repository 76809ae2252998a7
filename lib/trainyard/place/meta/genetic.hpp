#pragma once

#include <cstdint>

#include "trainyard/place/meta/placement_search.hpp"

namespace trainyard {

struct GeneticOptions {
  PlacementSearchOptions search = {};
  std::uint64_t population = 32;
  std::uint64_t elite = 2;       // best members that survive a generation
  std::uint64_t tournament = 3;  // members drawn at random, the best of which is a parent
  double mutation = 1;           // mean number of genes of a child that are drawn anew
};

/// Genetic search over placements. A chromosome is a placement, a gene the device of a colocation group. The first
/// generation is the start (PlacementSearch), and copies of it with one gene in ten drawn anew. Each later generation
/// keeps the elite. Its other members have two parents chosen by tournament, take every gene from one of them at random
/// (uniform crossover), and have some genes drawn anew (mutation). Members are evaluated on all threads. Ties go to the
/// older member.
///
/// The genes are the matching of L. Wang, H. J. Siegel, V. P. Roychowdhury, A. A. Maciejewski: Task matching and
/// scheduling in heterogeneous computing environments using a genetic-algorithm-based approach. JPDC 47(1), 1997. They
/// evolve the order too, which is fixed here (see PlacementSearch). Elitism and tournament are as in F. A. Omara, M. M.
/// Arafa: Genetic algorithms for task scheduling problem. JPDC 70(1), 2010.
Schedule genetic(const Problem& problem, const GeneticOptions& options, const PlaceOptions& run);

}  // namespace trainyard
