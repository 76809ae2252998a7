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

/// One rank's trace as a graph: each node an op NAME.ID, after all that it waits for; messages and collectives are ops
/// that take the durations of the file. ctrl_deps are orders, but callers where Chakra's converter wrote the file (a
/// node has an rf_id, or names one that is not there); they are left out, too, where they make a cycle. What a node
/// does on the host takes none of a GPU's time. A node without a duration has FLOPs and bytes, by which its time is
/// estimated. Throws InputError: "chakra" (a node waits for one that is not there), and as GraphBuilder::build does
/// ("cycle").
ChakraGraph chakra_graph(const ChakraRank& rank);

/// All ranks of a run as one graph: ops "rR/NAME.ID" run on the device "gpuR" alone. A send and its receive (by source,
/// destination and tag, in the order of their ids) are a tensor of the message's bytes. Collectives (the k-th of each
/// group, in the order of ids) start when all ranks have come to them: all-reduce, all-gather and reduce-scatter as
/// rings, all-to-all as a message of an n-th of the bytes for each pair; the others take the durations of the file.
/// Throws InputError also "ranks" (a rank without a file), "partner" (a send or receive without its partner, a
/// collective that a rank of the group lacks, or that differs between ranks).
ChakraGraph chakra_graph(std::vector<ChakraRank> ranks, const std::string& folder);

/// The files NAME.RANK.et of a folder, or one file. Throws InputError also as read_input does, "ranks" (no .et files,
/// or those of several runs).
ChakraGraph read_chakra(const std::filesystem::path& path);
/// Whether it is a folder with files of the name NAME.RANK.et, or a file of that kind by its name.
bool is_chakra_path(const std::filesystem::path& path);

}  // namespace trainyard
