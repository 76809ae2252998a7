#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainyard/cost/collective_table.hpp"

namespace trainyard::bench {

/// A measured table that somebody published.
struct PublishedTable {
  std::string set;  // "vTrain A100"
  CollectiveTable table;
};

/// The tables of a folder of reference data, where they are there:
///
///     formats/vtrain       {a100,v100}_AR_GPUn_1M_1024M_LUT.gz: nccl-tests' all-reduces of n GPUs, out of place
///     formats/aceso        profiled.tar.gz: all-reduce, all-gather, reduce-scatter, all-to-all of V100 (of GPT's
///     files) formats/galvatron    sp_time_1nodes_8gpus_per_node.json: all-reduce and all-to-all published
///     collectives.json: those not of vTrain, with times at several sizes
///
/// Sizes below 1 MiB are left out. Throws InputError where a file is not what it is said to be.
std::vector<PublishedTable> published_collectives(const std::filesystem::path& data);

/// The table's points nearest, by ratio, to these multiples of its least size (1 MiB in most), each once.
CollectiveTable fitted_at(const CollectiveTable& table, const std::vector<double>& multiples);

/// Relative errors of `fitted` at the points of `table` that it does not have.
std::vector<double> errors_of(const CollectiveTable& fitted, const CollectiveTable& table);

}  // namespace trainyard::bench
