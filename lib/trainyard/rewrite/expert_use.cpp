#include "trainyard/rewrite/expert_use.hpp"

#include <algorithm>

#include "trainyard/cost/op_signature.hpp"

namespace trainyard::detail {

ExpertUse::ExpertUse(const Graph& graph) : inside(graph.op_count(), false), has_rows(graph.tensor_count(), false) {
  for (const OpId op : graph.topological_order()) {
    const std::string& type = graph.type(op);
    const auto inputs = graph.inputs(op);
    const auto outputs = graph.outputs(op);
    if (type == "ExpertDispatch") {
      has_rows[*outputs.begin()] = true;
      if (const auto shapes = parse_signature(graph.signature(op)); shapes && shapes->write_count > 0)
        counts.push_back(static_cast<std::size_t>(shapes->writes[0].dims[0]));
    } else if (type == "ExpertCombineGrad") {
      has_rows[*outputs.begin()] = true;  // of the rows; the second is that of the weights of the router
    } else if (type != "ExpertCombine" && type != "ExpertDispatchGrad") {
      inside[op] = std::ranges::any_of(inputs, [&](TensorId tensor) { return bool{has_rows[tensor]}; });
      for (const TensorId tensor : outputs) has_rows[tensor] = inside[op];
    }
  }
}

}  // namespace trainyard::detail
