#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A field of a message, by its number, and its target: a number, a text, a list of texts or of integers, or a function
/// that reads the field.
template <class Target>
struct On {
  std::uint32_t number;
  Target to;
};
template <class Target>
On(int, Target&&) -> On<Target>;

/// Reads the fields of one protocol buffer message without a schema. It wraps protozero, whose accessors trust the
/// caller to know the encoding of a field. Here a field with another encoding throws protozero::exception, as all other
/// errors in the bytes do. Views refer to the bytes.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}

  /// Reads the next field into its target, or skips it if it has none. Returns false at the end of the message.
  template <class... Targets>
  bool next(On<Targets>... fields) {
    if (!reader_.next()) return false;
    if (!((reader_.tag() == fields.number && (store(fields.to), true)) || ...)) skip();
    return true;
  }
  template <class... Targets>
  void read(On<Targets>... fields) {
    while (next(On<Targets&>{fields.number, fields.to}...)) {
    }
  }
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

  /// Appends the numbers of a repeated field, packed or not.
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

  void store(std::int64_t& to) { to = integer(); }
  void store(std::string_view& to) { to = text(); }
  void store(std::string& to) { to = text(); }
  void store(std::vector<std::string_view>& to) { to.push_back(text()); }
  void store(std::vector<std::string>& to) { to.emplace_back(text()); }
  void store(std::vector<std::int64_t>& to) { append_integers(to); }
  template <class Function>
  void store(const Function& function) {
    function();
  }

  void expect(Wire type) const {
    if (reader_.wire_type() != type) throw protozero::unknown_pbf_wire_type_exception{};
  }

  protozero::pbf_reader reader_;
};

}  // namespace trainyard
