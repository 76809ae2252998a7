#include "trainyard/io/pytorch/foreign_graph.hpp"

#include <fmt/format.h>

#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/io/chakra/chakra_graph.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/pytorch/fx.hpp"
#include "trainyard/io/pytorch/kineto.hpp"
#include "trainyard/io/pytorch/pytorch_graph.hpp"

namespace trainyard {

std::optional<ForeignGraph> read_foreign_graph(const std::filesystem::path& path) {
  const std::string begin = begin_of_input(path);
  if (is_chakra_path(path) || is_chakra_json(begin)) {
    ChakraGraph chakra = read_chakra(path);
    return ForeignGraph{std::move(chakra.graph), std::move(chakra.notes)};
  }
  if (is_pytorch_trace(begin)) {
    const std::string name = input_name(path);
    TracedGraph traced = traced_graph(parse_pytorch_trace(read_input(path), name), name);
    return ForeignGraph{std::move(traced.graph), std::move(traced.notes)};
  }
  if (is_kineto(begin))
    refuse_file(
        input_name(path), "kineto",
        fmt::format("'{}' is a Kineto trace: it says when ops ran, but not which tensors they pass to each other",
                    input_name(path)),
        "give the execution trace of the same run with this file as its times (trainyard import et.json --times "
        "kineto.json), or use only the op times (trainyard calibrate kineto.json)");
  if (is_fx_graph(begin)) return ForeignGraph{parse_fx_graph(read_input(path), input_name(path)), {}};
  return std::nullopt;
}

}  // namespace trainyard
