#include "trainyard/io/onnx_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/io/wire_reader.hpp"

// Field numbers are those of onnx.proto, IR 3 to 10.

namespace trainyard::onnx {

namespace {

Dimension parse_dimension(WireReader reader) {
  Dimension dimension;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        dimension.value = reader.integer();
        break;
      case 2:
        dimension.symbol = reader.text();
        break;
      default:
        reader.skip();
        break;
    }
  }
  return dimension;
}

void parse_tensor_type(WireReader reader, ValueInfo& info) {
  info.is_tensor = true;
  while (reader.next()) {
    if (reader.tag() == 1) {
      info.data_type = reader.integer();
    } else if (reader.tag() == 2) {
      info.has_shape = true;
      for (WireReader shape = reader.message(); shape.next();) {
        if (shape.tag() == 1) {
          info.dims.push_back(parse_dimension(shape.message()));
        } else {
          shape.skip();
        }
      }
    } else {
      reader.skip();
    }
  }
}

ValueInfo parse_value_info(WireReader reader) {
  ValueInfo info;
  while (reader.next()) {
    if (reader.tag() == 1) {
      info.name = reader.text();
    } else if (reader.tag() == 2) {
      for (WireReader type = reader.message(); type.next();) {
        if (type.tag() == 1) {
          parse_tensor_type(type.message(), info);
        } else {
          type.skip();
        }
      }
    } else {
      reader.skip();
    }
  }
  if (info.dims.size() > kMostDimensions) refuse(fmt::format("'{}' has {} dimensions", info.name, info.dims.size()));
  for (const Dimension& dimension : info.dims) {
    if (dimension.value > kLargestDimension) {
      refuse(fmt::format("'{}' has a dimension of {}", info.name, dimension.value));
    }
  }
  return info;
}

/// Kinds of attributes: AttributeProto.AttributeType.
enum class Kind : std::int32_t { none, real, integer, text, tensor, graph, reals, integers, texts, tensors, graphs };

Kind kind_of(std::int64_t number) {
  return number >= 0 && number <= static_cast<std::int64_t>(Kind::graphs) ? static_cast<Kind>(number) : Kind::none;
}

void parse_attribute(WireReader reader, Operator& op) {
  std::string name;
  Kind kind = Kind::none;
  double real = 0;
  std::int64_t integer = 0;
  std::string string;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::string> strings;
  std::optional<Tensor> tensor;
  Kind seen = Kind::none;  // files of IR 1 do not state the kind
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        name = std::string{reader.text()};
        break;
      case 2:
        real = static_cast<double>(reader.single());
        seen = Kind::real;
        break;
      case 3:
        integer = reader.integer();
        seen = Kind::integer;
        break;
      case 4:
        string = std::string{reader.text()};
        seen = Kind::text;
        break;
      case 5:
        tensor = parse_tensor(reader.message());
        seen = Kind::tensor;
        break;
      case 6:
      case 11:
        op.has_graphs = true;
        reader.skip();
        break;
      case 7:
        reader.append_singles(reals);
        seen = Kind::reals;
        break;
      case 8:
        reader.append_integers(integers);
        seen = Kind::integers;
        break;
      case 9:
        strings.emplace_back(reader.text());
        seen = Kind::texts;
        break;
      case 20:
        kind = kind_of(reader.integer());
        break;
      default:
        reader.skip();
        break;
    }
  }
  switch (kind == Kind::none ? seen : kind) {
    case Kind::real:
      op.attributes[name] = real;
      break;
    case Kind::integer:
      op.attributes[name] = integer;
      break;
    case Kind::text:
      op.attributes[name] = std::move(string);
      break;
    case Kind::reals:
      op.attributes[name] = std::move(reals);
      break;
    case Kind::integers:
      op.attributes[name] = std::move(integers);
      break;
    case Kind::texts:
      op.attributes[name] = std::move(strings);
      break;
    case Kind::tensor:
      if (name == "value") op.literal = std::move(tensor);
      break;
    default:
      break;
  }
}

Operator parse_operator(WireReader reader) {
  Operator op;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        op.inputs.push_back(reader.text());
        break;
      case 2:
        op.outputs.push_back(reader.text());
        break;
      case 3:
        op.name = reader.text();
        break;
      case 4:
        op.type = reader.text();
        break;
      case 5:
        parse_attribute(reader.message(), op);
        break;
      case 7:
        op.domain = reader.text();
        break;
      default:
        reader.skip();
        break;
    }
  }
  if (op.domain == "ai.onnx") op.domain = {};
  return op;
}

Tensor parse_sparse_weight(WireReader reader) {
  Tensor tensor;
  while (reader.next()) {
    if (reader.tag() == 1) {
      const Tensor values = parse_tensor(reader.message());
      tensor.name = values.name;
      tensor.data_type = values.data_type;
    } else if (reader.tag() == 3) {
      reader.append_integers(tensor.dims);
    } else {
      reader.skip();
    }
  }
  check_dims(tensor);
  return tensor;
}

/// Far beyond any network, and near enough that a hostile file cannot take all memory.
constexpr std::size_t kMostEntries = 4'000'000;

template <class T>
void append(std::vector<T>& list, T entry) {
  if (list.size() == kMostEntries) refuse(fmt::format("the graph has more than {} entries of one kind", kMostEntries));
  list.push_back(std::move(entry));
}

void parse_graph(WireReader reader, File& file) {
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        append(file.operators, parse_operator(reader.message()));
        break;
      case 5:
        append(file.weights, parse_tensor(reader.message()));
        break;
      case 11:
        append(file.inputs, parse_value_info(reader.message()));
        break;
      case 12:
        append(file.outputs, parse_value_info(reader.message()));
        break;
      case 13:
        append(file.values, parse_value_info(reader.message()));
        break;
      case 15:
        append(file.weights, parse_sparse_weight(reader.message()));
        break;
      default:
        reader.skip();
        break;
    }
  }
}

std::pair<std::string_view, std::string_view> parse_entry(WireReader reader) {
  std::pair<std::string_view, std::string_view> entry;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        entry.first = reader.text();
        break;
      case 2:
        entry.second = reader.text();
        break;
      default:
        reader.skip();
        break;
    }
  }
  return entry;
}

void parse_opset(WireReader reader, File& file) {
  std::string_view domain;
  std::int64_t version = 0;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        domain = reader.text();
        break;
      case 2:
        version = reader.integer();
        break;
      default:
        reader.skip();
        break;
    }
  }
  file.opsets[domain == "ai.onnx" ? std::string_view{} : domain] = version;
}

File parse_model(std::string_view bytes) {
  File file;
  bool has_graph = false;
  for (WireReader reader{bytes}; reader.next();) {
    switch (reader.tag()) {
      case 1:
        file.ir_version = reader.integer();
        break;
      case 2:
        file.producer = reader.text();
        break;
      case 7:
        parse_graph(reader.message(), file);
        has_graph = true;
        break;
      case 8:
        parse_opset(reader.message(), file);
        break;
      case 14:
        file.metadata.insert(parse_entry(reader.message()));
        break;
      default:
        reader.skip();
        break;
    }
  }
  if (!has_graph) refuse("this is not an ONNX model: it holds no graph", "give a file written by an ONNX exporter");
  return file;
}

}  // namespace

std::int64_t File::opset() const {
  const auto at = opsets.find(std::string_view{});
  return at == opsets.end() ? 1 : at->second;
}

File parse(std::string_view bytes) {
  if (bytes.empty()) refuse("the file is empty", "give a file written by an ONNX exporter");
  try {
    return parse_model(bytes);
  } catch (const protozero::end_of_buffer_exception&) {
    refuse("this is not an ONNX model, or it is cut short: a field reaches beyond the end of the file",
           "export or copy the file again");
  } catch (const protozero::exception& problem) {
    refuse(fmt::format("this is not an ONNX model, or it is damaged ({})", problem.what()),
           "export or copy the file again");
  }
}

}  // namespace trainyard::onnx
