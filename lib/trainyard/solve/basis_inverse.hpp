#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::detail {

/// The inverse of a basis matrix as a product E_k ... E_2 E_1 of elementary matrices ("etas"), one per column that is
/// not a unit vector. An eta replaces unit vector `row` by the column.
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

  /// Replaces the basis column of `row` by the column whose forward() is `column`.
  void replace(std::size_t row, const std::vector<double>& column);
  std::size_t updates() const { return updates_; }
  /// Number of entries that forward() and backward() process.
  std::size_t size() const { return entries_.size() + etas_.size(); }

  /// Rebuilds the inverse for a basis with these columns; unit vectors fill the remaining places. Returns the row of
  /// each column, or kNoRow if it depends linearly on the others.
  static constexpr std::uint32_t kNoRow = ~std::uint32_t{0};
  std::vector<std::uint32_t> invert(const std::vector<std::span<const Entry>>& columns);

 private:
  struct Eta {
    std::uint32_t row;
    double pivot;
    std::size_t end;  // end of its other entries
  };
  void append(std::size_t row, const std::vector<double>& column);

  std::size_t rows_;
  std::vector<Eta> etas_;
  std::vector<Entry> entries_;
  std::size_t updates_ = 0;
};

}  // namespace trainyard::detail
