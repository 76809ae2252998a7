#include "trainyard/io/onnx/onnx_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "trainyard/io/onnx/wire_reader.hpp"

// Field numbers are those of onnx.proto, IR 3 to 10.

namespace trainyard::onnx {

namespace {

Dimension parse_dimension(WireReader reader) {
  Dimension dimension;
  reader.read(On{1, dimension.value}, On{2, dimension.symbol});
  return dimension;
}

void parse_tensor_type(WireReader reader, ValueInfo& info) {
  info.is_tensor = true;
  reader.read(On{1, info.data_type},
              On{2, [&] {
                   info.has_shape = true;
                   WireReader shape = reader.message();
                   shape.read(On{1, [&] { info.dims.push_back(parse_dimension(shape.message())); }});
                 }});
}

ValueInfo parse_value_info(WireReader reader) {
  ValueInfo info;
  reader.read(On{1, info.name}, On{2, [&] {
                                     WireReader type = reader.message();
                                     type.read(On{1, [&] { parse_tensor_type(type.message(), info); }});
                                   }});
  if (info.dims.size() > kMostDimensions) refuse(fmt::format("'{}' has {} dimensions", info.name, info.dims.size()));
  for (const Dimension& dimension : info.dims)
    if (dimension.value > kLargestDimension)
      refuse(fmt::format("'{}' has a dimension of {}", info.name, dimension.value));
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
  Kind seen = Kind::none;  // files of IR 1 omit the kind
  const auto graph = [&] {
    op.has_graphs = true;
    reader.skip();
  };
  reader.read(On{1, name}, On{2, [&] { real = static_cast<double>(reader.single()), seen = Kind::real; }},
              On{3, [&] { integer = reader.integer(), seen = Kind::integer; }},
              On{4, [&] { string = reader.text(), seen = Kind::text; }},
              On{5, [&] { tensor = parse_tensor(reader.message()), seen = Kind::tensor; }}, On{6, graph}, On{11, graph},
              On{7, [&] { reader.append_singles(reals), seen = Kind::reals; }},
              On{8, [&] { reader.append_integers(integers), seen = Kind::integers; }},
              On{9, [&] { strings.emplace_back(reader.text()), seen = Kind::texts; }},
              On{20, [&] { kind = kind_of(reader.integer()); }});
  const Kind is = kind == Kind::none ? seen : kind;
  if (is == Kind::real) op.attributes[name] = real;
  if (is == Kind::integer) op.attributes[name] = integer;
  if (is == Kind::text) op.attributes[name] = std::move(string);
  if (is == Kind::reals) op.attributes[name] = std::move(reals);
  if (is == Kind::integers) op.attributes[name] = std::move(integers);
  if (is == Kind::texts) op.attributes[name] = std::move(strings);
  if (is == Kind::tensor && name == "value") op.literal = std::move(tensor);
}

Operator parse_operator(WireReader reader) {
  Operator op;
  reader.read(On{1, op.inputs}, On{2, op.outputs}, On{3, op.name}, On{4, op.type},
              On{5, [&] { parse_attribute(reader.message(), op); }}, On{7, op.domain});
  if (op.domain == "ai.onnx") op.domain = {};
  return op;
}

Tensor parse_sparse_weight(WireReader reader) {
  Tensor tensor;
  reader.read(On{1,
                 [&] {
                   const Tensor values = parse_tensor(reader.message());
                   tensor.name = values.name;
                   tensor.data_type = values.data_type;
                 }},
              On{3, tensor.dims});
  check_dims(tensor);
  return tensor;
}

/// More than any network has, and few enough that a hostile file cannot exhaust the memory.
constexpr std::size_t kMostEntries = 4'000'000;

template <class T>
void append(std::vector<T>& list, T entry) {
  if (list.size() == kMostEntries) refuse(fmt::format("the graph has more than {} entries of one kind", kMostEntries));
  list.push_back(std::move(entry));
}

void parse_graph(WireReader reader, File& file) {
  reader.read(On{1, [&] { append(file.operators, parse_operator(reader.message())); }},
              On{5, [&] { append(file.weights, parse_tensor(reader.message())); }},
              On{11, [&] { append(file.inputs, parse_value_info(reader.message())); }},
              On{12, [&] { append(file.outputs, parse_value_info(reader.message())); }},
              On{13, [&] { append(file.values, parse_value_info(reader.message())); }},
              On{15, [&] { append(file.weights, parse_sparse_weight(reader.message())); }});
}

std::pair<std::string_view, std::string_view> parse_entry(WireReader reader) {
  std::pair<std::string_view, std::string_view> entry;
  reader.read(On{1, entry.first}, On{2, entry.second});
  return entry;
}

void parse_opset(WireReader reader, File& file) {
  std::string_view domain;
  std::int64_t version = 0;
  reader.read(On{1, domain}, On{2, version});
  file.opsets[domain == "ai.onnx" ? std::string_view{} : domain] = version;
}

File parse_model(std::string_view bytes) {
  File file;
  bool has_graph = false;
  WireReader reader{bytes};
  reader.read(On{1, file.ir_version}, On{2, file.producer},
              On{7,
                 [&] {
                   parse_graph(reader.message(), file);
                   has_graph = true;
                 }},
              On{8, [&] { parse_opset(reader.message(), file); }},
              On{14, [&] { file.metadata.insert(parse_entry(reader.message())); }});
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
