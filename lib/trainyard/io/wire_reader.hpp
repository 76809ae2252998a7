#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

namespace trainyard {

/// Fields of one protocol-buffer message, without a schema. Over protozero, whose accessors trust the caller to know
/// how a field is encoded: here a field encoded otherwise than asked for throws protozero::exception, as everything
/// else does that is wrong with the bytes. Views refer to the bytes.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}

  bool next() { return reader_.next(); }
  std::uint32_t tag() const { return reader_.tag(); }
  void skip() { reader_.skip(); }

  std::int64_t integer() {
    expect(Wire::varint);
    return reader_.get_int64();
  }
  float single() {
    expect(Wire::fixed32);
    return reader_.get_float();
  }
  std::string_view text() {
    expect(Wire::length_delimited);
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  }
  WireReader message() { return WireReader{text()}; }

  /// The numbers of a repeated field, packed or one by one.
  void append_integers(std::vector<std::int64_t>& list) {
    if (reader_.wire_type() != Wire::length_delimited) return list.push_back(integer());
    for (const std::int64_t number : reader_.get_packed_int64()) list.push_back(number);
  }
  void append_singles(std::vector<double>& list) {
    if (reader_.wire_type() != Wire::length_delimited) return list.push_back(static_cast<double>(single()));
    for (const float number : reader_.get_packed_float()) list.push_back(static_cast<double>(number));
  }
  void append_doubles(std::vector<double>& list) {
    if (reader_.wire_type() != Wire::length_delimited) {
      expect(Wire::fixed64);
      return list.push_back(reader_.get_double());
    }
    for (const double number : reader_.get_packed_double()) list.push_back(number);
  }

 private:
  using Wire = protozero::pbf_wire_type;

  void expect(Wire type) const {
    if (reader_.wire_type() != type) throw protozero::unknown_pbf_wire_type_exception{};
  }

  protozero::pbf_reader reader_;
};

}  // namespace trainyard
