#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "trainyard/core/id_map.hpp"

namespace trainyard {

/// Serializes values to bytes, one after another, for another process of the same program on the same kind of machine;
/// it is not a file format. A Packer writes the values and an Unpacker reads them back in the same order. Both handle
/// trivially copyable types, strings, containers of supported types, and every type with a function
///
///     template <class Archive>
///     void archive_fields(Archive& archive, Thing& thing) { archive(thing.one, thing.other); }
///
/// next to it. An Unpacker throws std::length_error if the bytes end too early, std::out_of_range for a variant that
/// has not the alternative.
class Packer {
 public:
  template <class... Values>
  void operator()(const Values&... values) {
    (add(values), ...);
  }
  std::string bytes() && { return std::move(bytes_); }

 private:
  template <class Value>
  void add(const Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      archive_fields(*this, const_cast<Value&>(value));  // archive_fields() only reads here
  }
  template <class Value>
  void add(const std::vector<Value>& values) {
    add(values.size());
    if constexpr (std::is_trivially_copyable_v<Value> && !std::is_same_v<Value, bool>)
      bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
    else
      for (const Value& each : values) add(each);
  }
  void add(const std::string& text) {
    add(text.size());
    bytes_ += text;
  }
  template <class Id, class Value>
  void add(const IdMap<Id, Value>& map) {
    add(map.values());
  }
  template <class Value>
  void add(const std::optional<Value>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class... Values>
  void add(const std::variant<Values...>& value) {
    add(value.index());
    std::visit([&](const auto& each) { add(each); }, value);
  }

  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class... Values>
  void operator()(Values&... values) {
    (take(values), ...);
  }

 private:
  template <class Value>
  void take(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      copy(&value, sizeof value);
    else
      archive_fields(*this, value);
  }
  template <class Value>
  void take(std::vector<Value>& values) {
    values.clear();
    if constexpr (std::is_trivially_copyable_v<Value> && !std::is_same_v<Value, bool>) {
      values.resize(count(sizeof(Value)));
      copy(values.data(), values.size() * sizeof(Value));
    } else {
      for (std::size_t left = count(1); left > 0; --left) {
        Value value{};
        take(value);
        values.push_back(std::move(value));
      }
    }
  }
  void take(std::string& text) {
    text.resize(count(1));
    copy(text.data(), text.size());
  }
  template <class Id, class Value>
  void take(IdMap<Id, Value>& map) {
    std::vector<Value> values;
    take(values);
    map = IdMap<Id, Value>{std::move(values)};
  }
  template <class Value>
  void take(std::optional<Value>& value) {
    bool given = false;
    take(given);
    value.reset();
    if (given) take(value.emplace());
  }
  template <class... Values>
  void take(std::variant<Values...>& value) {
    std::size_t index = 0, at = 0;
    take(index);
    if (index >= sizeof...(Values)) throw std::out_of_range("a packed variant names an unknown alternative");
    ((at++ == index ? take(value.template emplace<Values>()) : void()), ...);
  }

  /// Reads the size of a container whose elements take at least `bytes` bytes each.
  std::size_t count(std::size_t bytes) {
    std::size_t count = 0;
    take(count);
    if (count > bytes_.size() / bytes) throw std::length_error("packed values are cut short");
    return count;
  }
  void copy(void* to, std::size_t size) {
    if (size > bytes_.size()) throw std::length_error("packed values are cut short");
    if (size > 0) std::memcpy(to, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }

  std::string_view bytes_;
};

}  // namespace trainyard
