#pragma once

#include <cstdint>

#include "trainyard/place/meta/placement_search.hpp"

namespace trainyard {

struct GeneticOptions {
  PlacementSearchOptions search = {};
  std::uint64_t population = 32;
  std::uint64_t elite = 2;       // of them, that live on
  std::uint64_t tournament = 3;  // of so many, drawn at random, the best is a parent
  double mutation = 1;           // genes of a child that are drawn anew, on average
};

/// Genetic search over placements. A chromosome is a placement, a gene the device of a colocation group. The first
/// generation is the first state, and copies of it with one gene in ten drawn anew. Each later one keeps the elite; its
/// other members each have two parents chosen by tournament, every gene of one of them at random (uniform crossover),
/// and then some drawn anew (mutation). Members are evaluated on all threads. Ties go to the older member.
///
/// As matching of tasks to machines by L. Wang, H. J. Siegel, V. P. Roychowdhury, A. A. Maciejewski: Task matching and
/// scheduling in heterogeneous computing environments using a genetic-algorithm-based approach. JPDC 47(1), 1997 (which
/// evolves the order too: ours is fixed, see PlacementSearch); elitism and tournament as in F. A. Omara, M. M. Arafa:
/// Genetic algorithms for task scheduling problem. JPDC 70(1), 2010.
Schedule genetic(const Problem& problem, const GeneticOptions& options, const PlaceOptions& run);

}  // namespace trainyard
