#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A node of a Chakra execution trace (MLCommons Chakra, et_def.proto): one task of a rank. Times are in microseconds,
/// sizes in bytes.
struct ChakraNode {
  enum class Type : std::uint8_t { invalid, metadata, load, store, compute, send, receive, collective };
  enum class Collective : std::uint8_t {
    all_reduce,
    reduce,
    all_gather,
    gather,
    scatter,
    broadcast,
    all_to_all,
    reduce_scatter,
    reduce_scatter_block,
    barrier
  };

  std::uint64_t id = 0;
  std::string name;
  Type type = Type::invalid;
  std::vector<std::uint64_t> control, data;  // ids of the nodes it waits for
  std::uint64_t duration = 0;
  bool on_host = false;
  bool has_caller = false;  // written by Chakra's converter, whose ctrl_deps are callers
  std::int64_t tag = 0, bytes = 0, flops = 0, accessed_bytes = 0;
  std::optional<std::int64_t> source, destination;  // ranks
  std::optional<std::int64_t> collective;           // a value of Collective
  std::string group;                                // pg_name; empty or "0" for all ranks
  std::size_t at = 0;                               // byte offset in the file

  friend bool operator==(const ChakraNode&, const ChakraNode&) = default;
};

struct ChakraTrace {
  std::string version;
  std::vector<ChakraNode> nodes;

  friend bool operator==(const ChakraTrace&, const ChakraTrace&) = default;
};

/// Whether the text begins like the JSON form of a trace: {"workload_graph": [...]}.
bool is_chakra_json(std::string_view begin);

/// Reads a trace. It is either a sequence of protocol buffer messages, each preceded by its length (.et) and the first
/// of which is the metadata, or JSON. Integer attributes may have any integer kind. Throws InputError: the codes of
/// every JSON file (read_graph), and "chakra" for a truncated or damaged message (with its byte), a repeated id, an
/// unknown node type, a name that is not UTF-8, a send or receive without its partner's rank, or a negative or too
/// large size.
ChakraTrace parse_chakra(std::string_view bytes, const std::string& name);

/// The trace as messages whose attributes have the kinds that ASTRA-sim's feeders read.
std::string chakra_messages(const ChakraTrace& trace);

}  // namespace trainyard
