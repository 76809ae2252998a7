#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// An instance of the Yard, the benchmark of placement.
struct YardInstance {
  std::string name;    // also the name of its files: "layered-ops40-width6-seed3.4xV100.fair"
  std::string tier;    // "small" (proven optimum), "medium", "large"
  std::string family;  // "layered", "stg", "network"
  // A network (make_network), a shape (make_shape), make_giph_graph(), a task graph of the Yard ("stg/rand0004.stg"),
  // or a graph file of the user's own set ("graphs/bert.json").
  std::string model;
  std::string cluster;                         // preset_cluster, make_giph_network, or a file of the set ("eight.toml")
  std::string also = {};                       // a device kind that every second device has
  std::string sharing = {};                    // of all links: "serial", "fair", "none"; empty: the cluster's
  std::optional<std::int64_t> memory = {};     // of each device, in % of an even share of one device's need
  std::optional<std::int64_t> bandwidth = {};  // of links and egresses, in percent
  std::string folder = {};                     // folder of the set's files

  friend bool operator==(const YardInstance&, const YardInstance&) = default;
};

/// Reads the instances of a set. The text is a study (sweep/study.hpp) whose keys are the fields of YardInstance
/// without the name, and `seed`, which is appended to the model; a row is an instance. Files that the set names are
/// relative to the folder of `file`. Throws InputError: as parse_study() does, "missing-key", "several-values",
/// "number", "unknown-word" (a tier or a sharing rule), "duplicate-name".
std::vector<YardInstance> parse_yard(std::string_view text, const std::string& file);

/// The built-in set: data/yard/yard.toml.
const std::vector<YardInstance>& yard();
/// The instance of that name, or null.
const YardInstance* find_in_yard(std::string_view name, const std::vector<YardInstance>& set = yard());

/// The frozen problem of an instance. Its graph contains the roofline times, and its cluster the memories, so that both
/// written to files are the same problem for any program, regardless of later changes of the cost model. Throws as the
/// functions do that make or read its parts.
Problem yard_problem(const YardInstance& instance);

/// Identifies a problem: 64-bit FNV-1a over its graph file and its cluster file, as 16 hexadecimal digits.
std::string yard_hash(const Problem& problem);

/// A line of data/yard/hashes: an instance as it was when the set was frozen.
struct YardRecord {
  std::string name, tier;
  std::size_t ops = 0, devices = 0;
  std::string hash;

  friend bool operator==(const YardRecord&, const YardRecord&) = default;
};
YardRecord yard_record(const YardInstance& instance, const Problem& problem);
std::string record_text(const YardRecord& record);
/// The lines of data/yard/hashes.
const std::vector<YardRecord>& yard_records();
const YardRecord* find_record(std::string_view name);

}  // namespace trainyard
