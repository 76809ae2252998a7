#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainyard/cost/collective_table.hpp"

namespace trainyard::bench {

/// A published table of measured collective times.
struct PublishedTable {
  std::string set;  // "vTrain A100"
  CollectiveTable table;
};

/// Reads the tables of a folder of reference data; files that are missing are skipped:
///
///     formats/vtrain                  {a100,v100}_AR_GPUn_1M_1024M_LUT.gz: out-of-place all-reduces of n GPUs by
///                                     nccl-tests
///     formats/aceso                   profiled.tar.gz: all-reduce, all-gather, reduce-scatter and all-to-all on V100,
///                                     from GPT's files
///     formats/galvatron               sp_time_1nodes_8gpus_per_node.json: all-reduce and all-to-all
///     published/collectives.json      all-reduces at several sizes, without vTrain's
///
/// Sizes below 1 MiB are left out. Throws InputError if a file is not in its format.
std::vector<PublishedTable> published_collectives(const std::filesystem::path& data);

/// The table reduced to the points whose sizes are nearest, by ratio, to these multiples of its smallest size (1 MiB in
/// most tables), each once.
CollectiveTable fitted_at(const CollectiveTable& table, const std::vector<double>& multiples);

/// Relative errors of `fitted` at the points of `table` that are not in `fitted`.
std::vector<double> errors_of(const CollectiveTable& fitted, const CollectiveTable& table);

}  // namespace trainyard::bench
