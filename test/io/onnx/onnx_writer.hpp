#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::test {

/// Writes ONNX files field by field, as far as the tests need; the field numbers are those of onnx.proto.
class OnnxWriter {
 public:
  static constexpr int kFloat = 1, kInt64 = 7, kBool = 9;

  /// A dimension: a size, or a symbol.
  struct Dim {
    Dim(std::int64_t size) : value(size) {}  // NOLINT: implicit, so that sizes are written as numbers
    Dim(const char* name) : symbol(name) {}  // NOLINT
    std::int64_t value = -1;
    std::string symbol;
  };

  OnnxWriter& input(std::string_view name, const std::vector<Dim>& dims, int type = kFloat) {
    return info(11, name, dims, type);
  }
  OnnxWriter& output(std::string_view name, const std::vector<Dim>& dims, int type = kFloat) {
    return info(12, name, dims, type);
  }
  /// Adds an output of unknown type and shape.
  OnnxWriter& output(std::string_view name) {
    std::string message;
    protozero::pbf_writer{message}.add_string(1, std::string{name});
    protozero::pbf_writer{graph_}.add_message(12, message);
    return *this;
  }
  OnnxWriter& described(std::string_view name, const std::vector<Dim>& dims, int type = kFloat) {
    return info(13, name, dims, type);
  }

  enum class Data { none, empty, zeros, external };
  OnnxWriter& weight(std::string_view name, const std::vector<std::int64_t>& dims, Data data = Data::zeros) {
    std::string tensor;
    protozero::pbf_writer writer{tensor};
    std::size_t count = 1;
    for (const std::int64_t extent : dims) count *= static_cast<std::size_t>(extent), writer.add_int64(1, extent);
    writer.add_int32(2, kFloat);
    writer.add_string(8, std::string{name});
    if (data == Data::empty) writer.add_bytes(9, std::string{});
    if (data == Data::zeros) writer.add_bytes(9, std::string(4 * count, '\0'));
    if (data == Data::external) {
      std::string entry;
      protozero::pbf_writer{entry}.add_string(1, "location");
      writer.add_message(13, entry);
      writer.add_int32(14, 1);
    }
    protozero::pbf_writer{graph_}.add_message(5, tensor);
    return *this;
  }
  OnnxWriter& literal(std::string_view name, const std::vector<std::int64_t>& numbers) {
    protozero::pbf_writer{graph_}.add_message(5, integers(name, numbers));
    return *this;
  }

  /// One node's attributes, written one after the other.
  class Attributes {
   public:
    Attributes& whole(std::string_view name, std::int64_t number) {
      return add(name, 2, [&](auto& writer) { writer.add_int64(3, number); });
    }
    Attributes& real(std::string_view name, float number) {
      return add(name, 1, [&](auto& writer) { writer.add_float(2, number); });
    }
    Attributes& text(std::string_view name, std::string_view value) {
      return add(name, 3, [&](auto& writer) { writer.add_string(4, std::string{value}); });
    }
    Attributes& wholes(std::string_view name, const std::vector<std::int64_t>& numbers) {
      return add(name, 7, [&](auto& writer) { writer.add_packed_int64(8, numbers.begin(), numbers.end()); });
    }
    Attributes& tensor(std::string_view name, const std::vector<std::int64_t>& numbers) {
      return add(name, 4, [&](auto& writer) { writer.add_message(5, integers("", numbers)); });
    }
    Attributes& graph(std::string_view name) {
      return add(name, 5, [&](auto& writer) { writer.add_message(6, std::string{}); });
    }
    const std::vector<std::string>& messages() const { return messages_; }

   private:
    template <class Fill>
    Attributes& add(std::string_view name, int kind, Fill fill) {
      std::string message;
      protozero::pbf_writer writer{message};
      writer.add_string(1, std::string{name});
      fill(writer);
      writer.add_int32(20, kind);
      messages_.push_back(std::move(message));
      return *this;
    }
    std::vector<std::string> messages_;
  };

  OnnxWriter& node(std::string_view type, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs, const Attributes& attributes = {},
                   std::string_view name = {}, std::string_view domain = {}) {
    std::string message;
    protozero::pbf_writer writer{message};
    for (const std::string& input : inputs) writer.add_string(1, input);
    for (const std::string& made : outputs) writer.add_string(2, made);
    if (!name.empty()) writer.add_string(3, std::string{name});
    writer.add_string(4, std::string{type});
    for (const std::string& attribute : attributes.messages()) writer.add_message(5, attribute);
    if (!domain.empty()) writer.add_string(7, std::string{domain});
    protozero::pbf_writer{graph_}.add_message(1, message);
    return *this;
  }

  OnnxWriter& metadata(std::string_view key, std::string_view value) {
    std::string entry;
    protozero::pbf_writer writer{entry};
    writer.add_string(1, std::string{key});
    writer.add_string(2, std::string{value});
    protozero::pbf_writer{model_}.add_message(14, entry);
    return *this;
  }
  OnnxWriter& opset(std::int64_t version) {
    opset_ = version;
    return *this;
  }

  std::string bytes() const {
    std::string result = model_;
    std::string opset;
    protozero::pbf_writer{opset}.add_int64(2, opset_);
    protozero::pbf_writer writer{result};
    writer.add_int64(1, 8);
    writer.add_message(8, opset);
    writer.add_message(7, graph_);
    return result;
  }

 private:
  OnnxWriter& info(protozero::pbf_tag_type field, std::string_view name, const std::vector<Dim>& dims, int type) {
    std::string shape, tensor, wrapped, message;
    for (const Dim& dim : dims) {
      std::string one;
      protozero::pbf_writer writer{one};
      if (!dim.symbol.empty()) {
        writer.add_string(2, dim.symbol);
      } else if (dim.value >= 0) {
        writer.add_int64(1, dim.value);
      }
      protozero::pbf_writer{shape}.add_message(1, one);
    }
    protozero::pbf_writer tensor_writer{tensor};
    tensor_writer.add_int32(1, type);
    tensor_writer.add_message(2, shape);
    protozero::pbf_writer{wrapped}.add_message(1, tensor);
    protozero::pbf_writer writer{message};
    writer.add_string(1, std::string{name});
    writer.add_message(2, wrapped);
    protozero::pbf_writer{graph_}.add_message(field, message);
    return *this;
  }

  static std::string integers(std::string_view name, const std::vector<std::int64_t>& numbers) {
    std::string tensor;
    protozero::pbf_writer writer{tensor};
    writer.add_int64(1, static_cast<std::int64_t>(numbers.size()));
    writer.add_int32(2, kInt64);
    writer.add_packed_int64(7, numbers.begin(), numbers.end());
    writer.add_string(8, std::string{name});
    return tensor;
  }

  std::string graph_, model_;
  std::int64_t opset_ = 17;
};

using Onnx = OnnxWriter::Attributes;

}  // namespace trainyard::test
