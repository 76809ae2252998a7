#include "trainyard/io/onnx/onnx.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "trainyard/core/error.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << what << std::endl;
  std::abort();
}

/// Checks what the reader guarantees for every model: nodes are in order, and each value is known, shaped and produced
/// once.
void check(const Model& model) {
  IdMap<ValueId, std::uint8_t> known(model.values.size());
  for (const ValueId id : model.values.ids()) {
    known[id] = model.values[id].role != Value::Role::activation;
    if (known[id]) require(model.values[id].shape_known, "an input or weight has no shape");
  }
  for (const Node& node : model.nodes) {
    for (const ValueId input : node.inputs) require(input.is_none() || known[input], "a node reads ahead");
    for (const ValueId output : node.outputs) {
      if (output.is_none()) continue;
      require(!known[output], "a value is produced twice");
      require(model.values[output].shape_known, "a result has no shape");
      known[output] = 1;
    }
  }
  for (const ValueId id : model.inputs) require(model.values[id].role == Value::Role::input, "an input is none");
  for (const ValueId id : model.outputs) require(known[id], "an output is not produced");
}

void read(std::string_view bytes, const OnnxOptions& options) {
  try {
    const Model model = parse_onnx(bytes, "fuzzed", options);
    check(model);
    training_step(model);
  } catch (const InputError& error) {
    require(!error.findings().empty() && error.findings().size() <= kMostFindings, "a wrong number of findings");
    for (const Finding& finding : error.findings()) {
      require(!finding.code.empty() && !finding.message.empty(), "a finding says too little");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  read(bytes, {.bind = {{"N", 2}}});
  read(bytes, {.batch = 2, .simplify = false});
  return 0;
}
