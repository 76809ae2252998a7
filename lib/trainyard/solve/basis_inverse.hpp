#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::detail {

/// The inverse of a basis matrix as a product of elementary matrices ("etas"), one for each column that is no unit
/// vector: E_k ... E_2 E_1. Column by column, an eta replaces unit vector `row` by the column.
class BasisInverse {
 public:
  struct Entry {
    std::uint32_t row;
    double value;
  };

  explicit BasisInverse(std::size_t rows) : rows_(rows) {}

  /// v becomes inverse * v.
  void forward(std::vector<double>& v) const;
  /// v becomes v * inverse.
  void backward(std::vector<double>& v) const;

  /// The column whose forward() is `column` takes the place of the basis column of `row`.
  void replace(std::size_t row, const std::vector<double>& column);
  std::size_t updates() const { return updates_; }
  /// Numbers that forward() and backward() go through.
  std::size_t size() const { return entries_.size() + etas_.size(); }

  /// Starts anew: `columns` are to be in the basis, all other places being unit vectors. Says which row each column
  /// got, kNoRow where it depends on the others.
  static constexpr std::uint32_t kNoRow = ~std::uint32_t{0};
  std::vector<std::uint32_t> invert(const std::vector<std::span<const Entry>>& columns);

 private:
  struct Eta {
    std::uint32_t row;
    double pivot;
    std::size_t end;  // of its other entries
  };
  void append(std::size_t row, const std::vector<double>& column);

  std::size_t rows_;
  std::vector<Eta> etas_;
  std::vector<Entry> entries_;
  std::size_t updates_ = 0;
};

}  // namespace trainyard::detail
