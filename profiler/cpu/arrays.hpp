#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::cpu {

/// Elements in row-major order. `Data`: where they are.
template <class Data>
struct ArrayOf {
  Data data{};
  const Shape* shape = nullptr;

  explicit operator bool() const { return static_cast<bool>(data); }
  std::size_t size() const { return static_cast<std::size_t>(elements(*shape)); }
  std::size_t rank() const { return shape->size(); }
  std::int64_t dim(std::size_t i) const { return (*shape)[i]; }
};

/// What a kernel works on. An entry without data is not given (an optional input, a gradient that nobody wants, an
/// input that the backward op does not read).
template <class Array>
struct OpArraysOf {
  const Model& model;
  const Node& node;
  std::vector<Array> in, out;          // of the forward node; a forward kernel fills every `out` that has data
  std::vector<Array> dy, dx;           // backward: gradients of the outputs, and to fill, of the inputs
  std::vector<std::byte*> extra = {};  // what the forward op keeps for the backward op
  std::uint64_t seed = 0;              // of what the op draws at random

  Array input(std::size_t i) const { return i < in.size() ? in[i] : Array{}; }
  bool wants(std::size_t i) const { return i < dx.size() && dx[i]; }
  float* kept(std::size_t i = 0) const { return i < extra.size() ? reinterpret_cast<float*>(extra[i]) : nullptr; }
  const Value& value(ValueId id) const { return model.values[id]; }
  /// An axis of an array of this rank, counted from its end where negative.
  static std::size_t axis(std::int64_t given, std::size_t rank) {
    return static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(rank) : given);
  }
};

/// Whatever the type of a value, its numbers are computed as 32-bit floats.
using Array = ArrayOf<float*>;
using OpArrays = OpArraysOf<Array>;
using Kernel = void (*)(OpArrays&);

/// How one operator runs. `backward` fills every dx that has data from whatever of `in`, `out` and `extra` its backward
/// rule reads; null where no gradient passes.
struct OpKernels {
  std::string_view type;
  Kernel forward = nullptr, backward = nullptr;
};

/// Null where the operator has none.
const OpKernels* find_kernels(std::string_view type);
/// What the kernels of the node's operator do not do though the node asks for it ("with peepholes"); empty: nothing.
std::string why_not(const Node& node);
/// Names of all operators with kernels.
std::vector<std::string_view> kernel_types();

/// Memory of the calling thread for arrays that live as long as one op: kept from op to op.
class Scratch {
 public:
  static float* floats(std::size_t count);
  /// All that was taken may be taken again.
  static void reset();
};

}  // namespace trainyard::cpu
