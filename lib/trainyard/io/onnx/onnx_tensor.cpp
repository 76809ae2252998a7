#include "trainyard/io/onnx/onnx_tensor.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "trainyard/core/error.hpp"
#include "trainyard/model/shape_inference.hpp"

namespace trainyard::onnx {

namespace {

template <class T>
T little_endian(const char* bytes) {
  static_assert(std::endian::native == std::endian::little);
  T number;
  std::memcpy(&number, bytes, sizeof(T));
  return number;
}

/// Converts an IEEE 754 binary16 number.
double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

double from_bfloat(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

/// The fields of a tensor that can hold its numbers: raw bytes, or lists by type.
struct Numbers {
  std::string_view raw;
  bool has_raw = false;
  std::vector<std::int64_t> integers;  // int32_data, int64_data, uint64_data
  std::vector<double> reals;           // float_data, double_data
};

template <class T>
void read_raw(std::string_view raw, std::vector<std::int64_t>& list) {
  for (std::size_t at = 0; at + sizeof(T) <= raw.size(); at += sizeof(T))
    list.push_back(static_cast<std::int64_t>(little_endian<T>(raw.data() + at)));
}

template <class T>
void read_raw(std::string_view raw, std::vector<double>& list) {
  for (std::size_t at = 0; at + sizeof(T) <= raw.size(); at += sizeof(T))
    list.push_back(static_cast<double>(little_endian<T>(raw.data() + at)));
}

void interpret(Tensor& tensor, const Numbers& numbers) {
  const auto halves = [&](auto convert) {
    std::vector<std::int64_t> bits = numbers.integers;
    if (numbers.has_raw) read_raw<std::uint16_t>(numbers.raw, bits);
    for (const std::int64_t word : bits) tensor.reals.push_back(convert(static_cast<std::uint16_t>(word)));
  };
  tensor.reals = numbers.reals;
  switch (tensor.data_type) {
    case 1:
      read_raw<float>(numbers.raw, tensor.reals);
      break;
    case 11:
      read_raw<double>(numbers.raw, tensor.reals);
      break;
    case 10:
      halves(from_half);
      break;
    case 16:
      halves(from_bfloat);
      break;
    default:
      tensor.integers = numbers.integers;
      switch (tensor.data_type) {
        case 2:
        case 9:
          read_raw<std::uint8_t>(numbers.raw, tensor.integers);
          break;
        case 3:
          read_raw<std::int8_t>(numbers.raw, tensor.integers);
          break;
        case 4:
          read_raw<std::uint16_t>(numbers.raw, tensor.integers);
          break;
        case 5:
          read_raw<std::int16_t>(numbers.raw, tensor.integers);
          break;
        case 6:
          read_raw<std::int32_t>(numbers.raw, tensor.integers);
          break;
        case 12:
          read_raw<std::uint32_t>(numbers.raw, tensor.integers);
          break;
        case 7:
        case 13:
          read_raw<std::int64_t>(numbers.raw, tensor.integers);
          break;
        default:
          break;
      }
  }
  const auto type = data_type_from_onnx(tensor.data_type);
  if (!type) return;
  const bool floating = is_floating_point(*type);
  if (!floating) tensor.reals.clear();
  const std::size_t found = floating ? tensor.reals.size() : tensor.integers.size();
  tensor.numbers_known = found == static_cast<std::size_t>(elements(tensor.dims));
  if (!tensor.numbers_known) tensor.reals.clear(), tensor.integers.clear();
}

}  // namespace

void refuse(const std::string& message, const std::string& help) {
  throw InputError({.code = "onnx", .message = message, .help = help});
}

void check_dims(const Tensor& tensor) {
  if (tensor.dims.size() > kMostDimensions)
    refuse(fmt::format("'{}' has {} dimensions", tensor.name, tensor.dims.size()));
  for (const std::int64_t extent : tensor.dims)
    if (extent < 0 || extent > kLargestDimension)
      refuse(fmt::format("'{}' has a dimension of {}", tensor.name, extent));
  elements(tensor.dims);
}

/// Parses in two passes, since the numbers may precede the dimensions. Weights are skipped, not copied.
Tensor parse_tensor(WireReader reader) {
  Tensor tensor;
  bool external = false;
  WireReader first = reader;
  first.read(On{1, tensor.dims}, On{2, tensor.data_type}, On{8, tensor.name},
             On{14, [&] { external = first.integer() == 1; }});
  check_dims(tensor);
  if (external || elements(tensor.dims) > kMostContents) return tensor;
  // A tensor with few elements may still contain many numbers; stop reading once there are more than can be valid.
  constexpr std::size_t kMostBytes = static_cast<std::size_t>(kMostContents) * 10;
  Numbers numbers;
  bool sane = true;
  const auto integers = [&] { reader.append_integers(numbers.integers); };
  const auto raw = [&] {
    numbers.raw = reader.text();
    numbers.has_raw = true;
  };
  while (sane && reader.next(On{4, [&] { reader.append_singles(numbers.reals); }}, On{5, integers}, On{7, integers},
                             On{11, integers}, On{9, raw}, On{10, [&] { reader.append_doubles(numbers.reals); }}))
    sane =
        numbers.raw.size() <= kMostBytes && numbers.integers.size() <= kMostBytes && numbers.reals.size() <= kMostBytes;
  if (sane) interpret(tensor, numbers);
  return tensor;
}

}  // namespace trainyard::onnx
