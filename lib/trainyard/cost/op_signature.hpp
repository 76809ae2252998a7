#pragma once

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::detail {

enum class NumberKind : std::uint8_t { other, float64, float32, float16, bfloat16 };

/// A tensor of a signature: "float32[32,3,224,224]".
struct SignatureTensor {
  NumberKind type = NumberKind::other;
  std::size_t rank = 0;
  std::array<double, 6> dims{};  // the first six

  double count() const {
    double product = 1;
    for (std::size_t i = 0; i < rank; ++i) product *= dims[i];
    return product;
  }
  double from_end(std::size_t i) const { return i < rank ? dims[rank - 1 - i] : 1; }
};

/// A parsed op signature "Type(reads)->writes": the first six tensors of each list, and the lists' lengths. The
/// signature "0.25 of Type(reads)->writes" is a part of an op with that share of its rows or samples. For batched
/// products with weights, "0.25 of rows of Type(reads)->writes" is all products with that share of the rows of each.
struct OpSignature {
  double share = 1;
  bool of_rows = false;
  std::array<SignatureTensor, 6> reads{}, writes{};
  std::size_t read_count = 0, write_count = 0;

  /// The type of the first floating-point tensor among the reads, then the writes.
  NumberKind precision() const {
    for (const auto* side : {&reads, &writes})
      for (const SignatureTensor& tensor : *side)
        if (tensor.type != NumberKind::other) return tensor.type;
    return NumberKind::other;
  }
};

inline double bytes_of(NumberKind type) {
  if (type == NumberKind::float64) return 8;
  return type == NumberKind::float16 || type == NumberKind::bfloat16 ? 2 : 4;
}

inline NumberKind number_kind(std::string_view name) {
  if (name == "float32") return NumberKind::float32;
  if (name == "float16") return NumberKind::float16;
  if (name == "bfloat16") return NumberKind::bfloat16;
  return name == "float64" ? NumberKind::float64 : NumberKind::other;
}

/// Reads tensors up to ')' or the end, and removes them from `text`; false if the syntax is wrong.
inline bool read_tensors(std::string_view& text, std::array<SignatureTensor, 6>& tensors, std::size_t& count) {
  while (!text.empty() && text.front() != ')') {
    if (text.front() == ',') text.remove_prefix(1);
    const std::size_t open = text.find('[');
    if (open == std::string_view::npos) return false;
    SignatureTensor tensor{.type = number_kind(text.substr(0, open))};
    text.remove_prefix(open + 1);
    while (!text.empty() && text.front() != ']') {
      if (text.front() == ',') text.remove_prefix(1);
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
      if (error != std::errc{} || extent < 0 || tensor.rank == tensor.dims.size()) return false;
      tensor.dims[tensor.rank++] = static_cast<double>(extent);
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
    if (text.empty()) return false;
    text.remove_prefix(1);
    if (count < tensors.size()) tensors[count] = tensor;
    ++count;
  }
  return true;
}

/// Removes the share at the beginning of a signature and returns it; 1 if there is none.
inline double take_share_of(std::string_view& text) {
  constexpr std::string_view kOf = " of ";
  const std::size_t of = text.find(kOf);
  double share = 1;
  if (of == std::string_view::npos || of > text.find('(')) return 1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + of, share);
  if (error != std::errc{} || end != text.data() + of) return 1;
  text.remove_prefix(of + kOf.size());
  return share;
}

inline constexpr std::string_view kRowsOf = "rows of ";

/// The signature of a share of an op, or with `of_rows` of its rows; empty if the op has none.
inline std::string part_signature(std::string_view signature, double share, bool of_rows = false) {
  if (signature.empty()) return {};
  share *= take_share_of(signature);
  return fmt::format("{} of {}{}", share, of_rows && !signature.starts_with(kRowsOf) ? kRowsOf : "", signature);
}

/// Nothing if the text is not a signature, as in graphs from other programs.
inline std::optional<OpSignature> parse_signature(std::string_view text) {
  OpSignature signature;
  signature.share = take_share_of(text);
  signature.of_rows = text.starts_with(kRowsOf);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  text.remove_prefix(open + 1);
  if (!read_tensors(text, signature.reads, signature.read_count) || !text.starts_with(")->")) return std::nullopt;
  text.remove_prefix(3);
  if (!read_tensors(text, signature.writes, signature.write_count) || !text.empty()) return std::nullopt;
  return signature;
}

}  // namespace trainyard::detail
