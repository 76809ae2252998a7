#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// A problem of the Yard, the benchmark of placement.
struct YardInstance {
  std::string name;       // of files too: "layered-ops40-width6-seed3.4xV100.fair"
  std::string tier;       // "small" (the optimum is proven), "medium", "large"
  std::string family;     // "layered", "stg", "network"
  std::string model;      // a network (make_network), a shape (make_shape), make_giph_graph, a task graph of the Yard
                          // ("stg/rand0004.stg"), or a graph file of a set of one's own ("graphs/bert.json")
  std::string cluster;    // preset_cluster, make_giph_network, or a file of the set ("eight.toml")
  std::string also = {};  // a kind: every second device is one of it
  std::string sharing = {};                    // of all links: "serial", "fair", "none"; empty: as the cluster has it
  std::optional<std::int64_t> memory = {};     // of each device, in percent of an even share of what one would need
  std::optional<std::int64_t> bandwidth = {};  // of links and egresses, in percent
  std::string folder = {};                     // where the set's files are

  friend bool operator==(const YardInstance&, const YardInstance&) = default;
};

/// Instances from a set's text: a study (sweep/study.hpp) whose keys are the fields of YardInstance but for the name,
/// and `seed`, which is put behind the model; a row is an instance. Files that the set names lie beside `file`. Throws
/// InputError: as parse_study(), "missing-key", "number", "unknown-word" (a tier, a rule), "duplicate-name".
std::vector<YardInstance> parse_yard(std::string_view text, const std::string& file);

/// The built-in set: data/yard/yard.toml.
const std::vector<YardInstance>& yard();
/// The instance of that name, or null.
const YardInstance* find_in_yard(std::string_view name, const std::vector<YardInstance>& set = yard());

/// The problem, as frozen: times by the roofline and memories are part of its graph and cluster, so that both written
/// to files are the same problem for any program, whatever becomes of the cost model. Throws as what makes or reads its
/// parts.
Problem yard_problem(const YardInstance& instance);

/// What tells the problem from others: 64 bits of FNV-1a over its graph file and its cluster file, in 16 hexadecimal
/// digits.
std::string yard_hash(const Problem& problem);

/// A line of data/yard/hashes: what an instance was when the set was frozen.
struct YardRecord {
  std::string name, tier;
  std::size_t ops = 0, devices = 0;
  std::string hash;

  friend bool operator==(const YardRecord&, const YardRecord&) = default;
};
YardRecord yard_record(const YardInstance& instance, const Problem& problem);
std::string record_text(const YardRecord& record);
/// data/yard/hashes, by line.
const std::vector<YardRecord>& yard_records();
const YardRecord* find_record(std::string_view name);

}  // namespace trainyard
