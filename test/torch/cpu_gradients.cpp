// Computes the loss and gradients of a recipe's step with the cpu backend's kernels, as the reference for
// profiler/torch.
//
//     cpu_gradients MODEL FILE     writes each parameter's name, count and gradient (32-bit floats) to FILE; prints the
//     loss
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <vector>

#include "profiler/kernels/cpu/program.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

int main(int argc, char** argv) {
  try {
    if (argc != 3) return 2;
    const TrainingStep training = training_step(make_network(argv[1]));
    const TrainingRecipe& recipe = training.recipe;
    cpu::Program program{training.graph, recipe, 1};
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::byte*> tensors;
    for (const TensorId tensor : training.graph.tensors()) {
      memory.emplace_back(program.tensor_bytes(tensor));
      tensors.push_back(memory.back().data());
    }
    for (const OpId op : training.graph.topological_order()) program.run(op, tensors.data());
    std::ofstream out{argv[2], std::ios::binary};
    for (const OpId op : training.graph.ops()) {
      const OpRecipe& how = recipe.ops[op];
      if (how.kind != OpRecipe::Kind::update) continue;
      const Value& value = recipe.model.values[how.value];
      const Operand& read = how.reads[0];
      if (!read.views.empty()) continue;  // read through a view, not as stored
      out << value.name << '\n' << elements(value.shape) << '\n';
      out.write(reinterpret_cast<const char*>(tensors[read.tensor.index()]),
                static_cast<std::streamsize>(elements(value.shape)) * 4);
    }
    std::printf("%.9g\n", program.loss());
    return out.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
