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
///     "json"           not JSON, cut short, not text, nested too deep      "format"         another file format
///     "duplicate-key"  a key twice in one object                           "unknown-key"    with the nearest known one
///     "type"           a string where a number belongs, and so on          "missing-key"    no "ops", no "name"
///     "fraction", "too-large", "negative-bytes", "negative-time", "negative-flops", "number": bad numbers
///
/// and everything that GraphBuilder::build finds. Keys for the author, "comment" and "x-...", may stand in the file, in
/// an op and in an output.
Graph read_graph(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
Graph parse_graph(std::string_view text, const std::string& name);

/// "forward", "backward", "update".
const char* name_of(Phase phase);

/// Writes the graph so that reading it gives an equal graph, one op per line; what has its default is left out. The
/// same graph gives the same bytes. Bytes of names that are not UTF-8 become U+FFFD: such a graph is read as another.
void write_graph(const Graph& graph, std::ostream& out);

}  // namespace trainyard
