#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "profiler/kernels/cpu/arrays.hpp"
#include "profiler/kernels/initial_values.hpp"
#include "profiler/kernels/step_program.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::cpu {

/// A training graph on a CPU: parameters, optimizer state and inputs, and its ops on the memory of tensors.
class Program {
 public:
  /// Throws InputError ("unsupported-op") naming the operators without a kernel.
  Program(const Graph& graph, const TrainingRecipe& recipe, std::uint64_t seed);

  /// Bytes of the tensor here: its size in the graph, or 4 per element if that is more.
  std::size_t tensor_bytes(TensorId tensor) const { return bytes_[tensor]; }
  /// Runs an op; `tensors` holds the address of each tensor that it reads or writes. Ops that touch one parameter must
  /// not run at once.
  void run(OpId op, std::byte* const* tensors);

  /// Call when all ops of a step have run: makes the updated parameters current.
  void end_step();

  /// Resets parameters, state and inputs to the start; the seed determines them.
  void reset();
  std::uint64_t parameter_checksum() const;
  std::vector<float>& held(ValueId value) { return held_[value]; }
  const std::vector<float>& input(ValueId value) const { return inputs_[value]; }
  const TrainingRecipe& recipe() const { return recipe_; }
  /// Loss of the last step; 0 if there is none.
  double loss() const;

 private:
  class Device;

  void update(ValueId parameter, const Array& gradient, const std::optional<Range>& range);
  void fill(ValueId id, std::vector<float>& to) const;
  void fill_part(const HeldCopy& copy, std::vector<float>& to) const;
  void find_used(const Graph& graph);

  const TrainingRecipe& recipe_;
  const Model& model_;
  const IdMap<ValueId, kernels::InitialValues> first_values_ = kernels::initial_values(model_);
  std::uint64_t seed_;
  kernels::StepProgram<Array, Kernel> ops_;
  IdMap<TensorId, std::size_t> bytes_;
  IdMap<ValueId, std::vector<float>> held_, inputs_, momentum_, variance_, updated_;
  IdMap<ValueId, std::int64_t> steps_;
  IdMap<ValueId, bool> is_used_;
  std::map<ValueId, const HeldCopy*> copies_;
  std::set<ValueId> in_pieces_;    // parameters that several ops update in parts
  std::map<OpId, double> losses_;  // by op that makes a share of it
};

}  // namespace trainyard::cpu
