#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"
#include "trainyard/io/chakra/chakra_file.hpp"

namespace trainyard {

struct ChakraRank {
  std::int64_t rank = 0;
  std::string file;
  ChakraTrace trace;
};

struct ChakraGraph {
  Graph graph;
  std::vector<std::string> notes;
};

/// One rank's trace as a graph. Each node becomes an op NAME.ID after all nodes that it waits for; messages and
/// collectives become ops with the durations of the file. ctrl_deps are dependencies unless Chakra's converter wrote
/// the file, in which they are callers (a node has an rf_id, or names a ctrl_dep that is not in the file). They are
/// also dropped if they make a cycle. Host nodes take no GPU time. A node without a duration has FLOPs and bytes, from
/// which its time is estimated. Throws InputError: "chakra" if a node waits for one that is not in the file, and as
/// GraphBuilder::build() does ("cycle").
ChakraGraph chakra_graph(const ChakraRank& rank);

/// All ranks of a run as one graph. Op "rR/NAME.ID" can run on device "gpuR" only. A send and its receive become a
/// tensor of the message's bytes; they are matched by source, destination and tag, in the order of their ids.
/// Collectives are matched by group, in the order of their ids, and start when all ranks have reached them. All-reduce,
/// all-gather and reduce-scatter become rings, and all-to-all becomes one message of 1/n of the bytes for each pair of
/// the n ranks; other collectives take the durations of the file.
///
/// Also throws InputError "ranks" for a rank without a file, and "partner" for a send or receive without its partner,
/// and for a collective that a rank of the group lacks or that differs between ranks.
ChakraGraph chakra_graph(std::vector<ChakraRank> ranks, const std::string& folder);

/// Reads the files NAME.RANK.et of a folder, or a single file. Also throws InputError as read_input() does, and "ranks"
/// for a folder without .et files or with those of several runs.
ChakraGraph read_chakra(const std::filesystem::path& path);
/// Whether the path is a folder with files named NAME.RANK.et, or a file that ends in .et or .et.gz.
bool is_chakra_path(const std::filesystem::path& path);

}  // namespace trainyard
