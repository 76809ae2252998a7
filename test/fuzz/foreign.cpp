#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "trainyard/core/error.hpp"
#include "trainyard/io/chakra/chakra_graph.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/pytorch/foreign_graph.hpp"
#include "trainyard/io/pytorch/fx.hpp"
#include "trainyard/io/pytorch/kineto_link.hpp"
#include "trainyard/io/pytorch/pytorch_graph.hpp"
#include "trainyard/io/pytorch/torch_export.hpp"

using namespace trainyard;

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << what << std::endl;
  std::abort();
}

/// A step's PyTorch trace; if a line "====" follows, Kineto's trace of that step comes after it.
Graph read_trace(std::string_view text) {
  const std::size_t cut = text.find("\n====\n");
  const std::string trace{text.substr(0, cut)};
  if (cut == std::string_view::npos) return traced_graph(parse_pytorch_trace(trace, "input"), "input").graph;
  const KinetoTrace kineto = parse_kineto(text.substr(cut + 6), "kineto");
  return traced_graph(parse_pytorch_trace(trace, "input"), "input", &kineto, "kineto").graph;
}

Graph read_any(std::string_view text) {
  if (is_pytorch_trace(text)) return read_trace(text);
  if (is_fx_graph(text)) return parse_fx_graph(text, "input");
  return chakra_graph({0, "input", parse_chakra(text, "input")}).graph;
}

/// Reads one Chakra trace as the traces of two ranks.
void read_as_ranks(std::string_view text) {
  const ChakraTrace trace = parse_chakra(text, "input");
  chakra_graph({{0, "input", trace}, {1, "input", trace}}, "input");
  const ChakraTrace again = parse_chakra(chakra_messages(trace), "input");
  require(again.nodes.size() == trace.nodes.size(), "what is written reads as something else");
}

template <class Read>
void check(const Read& read) {
  try {
    read();
  } catch (const InputError& error) {
    require(!error.findings().empty() && error.findings().size() <= kMostFindings, "a wrong number of findings");
    for (const Finding& finding : error.findings())
      require(!finding.code.empty() && !finding.message.empty(), "a finding says too little");
  }
}

}  // namespace

/// A trace or model file of another program either becomes a graph, which is equal when written and read again, or
/// throws an InputError.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  check([&] {
    const Graph graph = read_any(text);
    std::ostringstream written;
    write_graph(graph, written);
    require(parse_graph(written.str(), "written") == graph, "what is written reads as something else");
  });
  check([&] {
    if (!is_pytorch_trace(text) && !is_fx_graph(text)) read_as_ranks(text);
  });
  check([&] {
    if (!is_exported_program(text)) return;
    const Model model = parse_exported_program(text, "input");
    for (const Node& node : model.nodes)
      for (const ValueId output : node.outputs) require(model.values[output].shape_known, "a result has no shape");
  });
  check([&] {
    if (is_kineto(text)) kineto_profile(parse_kineto(text, "input"), "input");
  });
  return 0;
}
