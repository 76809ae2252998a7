#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Reads a `trainyard-graph/1` file ("-" is standard input, .gz is decompressed). Throws InputError with up to
/// kMostFindings findings, each with line, column and the line itself:
///
///     "json"           not JSON, truncated, not text, nested too deep      "format"         another file format
///     "duplicate-key"  a key twice in one object                           "unknown-key"    with the nearest known one
///     "type"           a value of another type than the key's              "missing-key"    no "ops", no "name"
///     "unknown-phase", "unknown-collective", "collective": values that the format does not have
///     "fraction", "too-large", "negative-bytes", "negative-time", "negative-flops", "number": bad numbers
///
/// and the findings of GraphBuilder::build(). The author's own keys, "comment" and "x-...", are allowed in the file, in
/// an op, in an output and in a collective.
Graph read_graph(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
Graph parse_graph(std::string_view text, const std::string& name);

/// "forward", "backward", "update".
const char* name_of(Phase phase);

/// Writes the graph so that reading it gives an equal graph, one op per line, without values that equal the default.
/// Equal graphs give equal bytes. Bytes of names that are not UTF-8 become U+FFFD, so that such a graph is not read
/// back as equal.
void write_graph(const Graph& graph, std::ostream& out);

}  // namespace trainyard
